"""The command line: an admin's input and its results."""
