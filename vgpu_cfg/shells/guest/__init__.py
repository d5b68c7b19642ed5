"""The shell of a guest over SSH: trusted host keys, and logins."""
