"""The methods of hosts and their managers, and the outages of hosts."""
