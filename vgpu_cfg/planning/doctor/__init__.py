"""The health of an estate, from one reading and before any plan file exists."""
