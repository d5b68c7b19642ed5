"""What is the same of every shell on another machine: SSH, root's rights, files that arrive whole."""
