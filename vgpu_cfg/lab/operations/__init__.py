"""What the methods do to the state: VMs, hosts, and what joins them."""
