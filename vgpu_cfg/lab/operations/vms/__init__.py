"""What the methods of VMs do: made, changed, moved, switched on and off, gone."""
