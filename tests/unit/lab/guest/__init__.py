"""The lab's guests: their life, cloud-init, the stage command, their tools, and the ways in."""
