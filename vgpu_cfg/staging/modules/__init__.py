"""One file per module: from its parameters to the files and the script that bring it into a guest."""
