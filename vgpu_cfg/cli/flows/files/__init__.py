"""How what is there goes into plan files, and VMs become a plan's."""
