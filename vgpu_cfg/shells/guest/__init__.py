"""How the shell of a guest is reached over SSH: whose host key is believed, and who logs in."""
