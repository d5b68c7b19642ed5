"""Files that come in, broken in any way: how they are made, and the processes that are given them."""
