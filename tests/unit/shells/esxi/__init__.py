"""The shell of an ESXi host."""
