"""Clients that others wrote, or that are written as others write them, against the lab."""
