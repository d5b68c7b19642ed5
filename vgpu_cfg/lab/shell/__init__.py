"""The shell of a simulated ESXi host: its tools, each in its real format, and who is let in."""
