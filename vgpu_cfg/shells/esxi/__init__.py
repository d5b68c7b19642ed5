"""How the shell of an ESXi host is reached, and what its tools are asked."""
