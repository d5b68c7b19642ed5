"""The shell of a simulated ESXi host: logins, its tools, and SSH in front of it."""
