"""A plan as rows: what it does to whom, what it found, what it does not know."""
