"""How a shell on another machine is reached and used: SSH, a plan's keys, root's rights, whole files."""
