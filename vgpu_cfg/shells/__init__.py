"""Shells on other machines: SSH, a plan's keys, root's rights, whole files."""
