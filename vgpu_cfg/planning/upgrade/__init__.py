"""An upgrade of a whole vCenter: affected hosts and VMs, waves over maintenance windows, plan files."""
