"""What guests get: their specs, what of them is outdated, and what stands against it."""
