"""The command line: what an admin types, and what comes back."""
