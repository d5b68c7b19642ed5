"""The methods of VMs: creation, changes, moves, power, removal."""
