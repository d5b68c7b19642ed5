"""What the methods of hosts and their managers do, and how a host goes and comes."""
