"""Checks of hosts, guests, pairs and all workers together, and the meaning of their failures."""
