"""What would take a run back whose changes failed: a plan like any other, and what it has to leave."""
