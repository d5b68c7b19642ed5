"""The plan that rolls back a run with failed changes: a plan like any other, and its exclusions."""
