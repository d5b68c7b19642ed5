"""Write existing settings into plan files, and bring VMs under a plan's management."""
