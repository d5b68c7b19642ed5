"""How ESXi hosts show: hardware, GPUs, networks, options."""
