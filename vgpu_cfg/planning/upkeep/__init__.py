"""How a host is closed to new VMs, emptied for work on it, and filled again."""
