"""What the tools of NICs and of RDMA print: firmware, links, settings, counters, bandwidth."""
