"""The RDMA path that follows from one word on a NIC: needs of VMs and hosts, and its completeness."""
