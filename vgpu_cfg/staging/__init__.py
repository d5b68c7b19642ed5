"""The content of a guest: files and scripts for each module, and the ways to deliver them."""
