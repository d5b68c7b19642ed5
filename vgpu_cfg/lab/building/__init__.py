"""Turn an estate into a state: its hosts and VMs made, tied together, powered on by the rules."""
