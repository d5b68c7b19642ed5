"""Trials of beliefs on a vCenter with marked throw-away objects, and readings of guests' downloads."""
