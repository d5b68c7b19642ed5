"""The server, the account and the folders: the environment's share in a command."""
