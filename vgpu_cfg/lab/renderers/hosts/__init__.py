"""Rendering of ESXi hosts: hardware, GPUs, networks, options."""
