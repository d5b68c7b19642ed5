"""Run a line of shell in a guest, and background programs."""
