"""Errors with their remedies, and beliefs with their sources: data, with as little code as possible."""
