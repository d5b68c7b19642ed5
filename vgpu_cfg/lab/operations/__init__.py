"""The effects of methods on the state: VMs, hosts, and what joins them."""
