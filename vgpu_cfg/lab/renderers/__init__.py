"""What the lab's state looks like to a client: per managed type, a table from property path to renderer."""
