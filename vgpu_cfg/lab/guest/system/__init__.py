"""What there is in a guest: its files, accounts, GPUs, NICs, and how it came to be."""
