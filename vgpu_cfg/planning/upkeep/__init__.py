"""Upkeep of hosts: closed to new VMs, emptied for work on them, and filled again."""
