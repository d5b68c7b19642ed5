"""esxcli as a simulated host has it: commands that answer rows, and the XML that vCenter hands over."""
