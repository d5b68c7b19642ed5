"""The content of an estate file, and the places of estates."""
