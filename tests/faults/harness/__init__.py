"""Real processes and a served lab, both forked at every request, so that a fault costs only what follows."""
