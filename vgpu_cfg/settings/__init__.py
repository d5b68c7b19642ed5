"""Which server, which account, which folders: what the surroundings of a command decide."""
