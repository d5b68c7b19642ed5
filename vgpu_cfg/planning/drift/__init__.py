"""Differences from the plan file, value by value, with their authors from vCenter's events."""
