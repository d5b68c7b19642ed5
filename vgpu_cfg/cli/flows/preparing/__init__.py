"""Preparations of a command before it changes anything: its request, rights, locks, facts, an id."""
