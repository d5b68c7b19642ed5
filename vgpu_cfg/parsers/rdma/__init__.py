"""Output of NIC and RDMA tools: firmware, links, settings, counters, bandwidth."""
