"""The property collector: which objects, which properties, what changed since."""
