"""Work on hosts, its order, and the fewest restarts for it."""
