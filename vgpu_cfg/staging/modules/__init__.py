"""The output of each guest module, by subject: its files, and the halves of its script."""
