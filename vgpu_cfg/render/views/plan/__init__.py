"""A plan as rows: its effects by subject, its findings, and its unknowns."""
