"""The shell of a simulated ESXi host: who is let in, its tools, and SSH in front of it."""
