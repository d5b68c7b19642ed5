"""Rendering of VMs: configuration, devices, guests."""
