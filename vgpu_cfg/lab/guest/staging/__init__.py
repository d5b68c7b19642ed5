"""What the stage command does in a guest: each module of a bundle, checked and applied."""
