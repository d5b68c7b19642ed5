"""The content of a guest: its files, accounts, GPUs, NICs, and its origin."""
