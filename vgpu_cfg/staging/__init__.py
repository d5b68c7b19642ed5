"""What goes into a guest: files and scripts for each module, and the ways in which they are carried there."""
