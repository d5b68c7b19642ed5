"""The programs that a simulated guest has, each in its real format."""
