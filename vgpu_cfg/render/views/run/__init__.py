"""The result of a run as rows: its hosts, VMs and steps, along time."""
