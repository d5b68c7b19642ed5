"""Trials of beliefs on a vCenter with throw-away objects, which carry a mark and are removed again."""
