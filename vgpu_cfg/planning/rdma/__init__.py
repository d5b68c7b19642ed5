"""The RDMA path that follows from one word on a NIC: what VMs and hosts need, and whether it is whole."""
