"""The shell of an ESXi host, and the questions to its tools."""
