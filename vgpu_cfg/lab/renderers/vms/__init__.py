"""How VMs show: configuration, devices, guests."""
