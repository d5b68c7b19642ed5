"""Checks: what is asked of hosts, guests, pairs and all workers together, and what a failure means."""
