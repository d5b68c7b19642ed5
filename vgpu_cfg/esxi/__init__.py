"""The shell of an ESXi host: how it is reached, and what its tools are asked."""
