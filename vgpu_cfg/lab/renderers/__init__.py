"""The lab's state as a client sees it: per managed type, a table from property path to renderer."""
