"""What must be done to hosts, in which order, and with how few restarts."""
