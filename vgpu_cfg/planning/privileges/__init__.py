"""Which privileges an account needs at vCenter for a plan: on what, for what, and in which roles."""
