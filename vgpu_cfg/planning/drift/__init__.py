"""What differs from the plan file, value by value, and whose hand it was by vCenter's events."""
