"""The stage command in a guest: each module of a bundle, checked and applied."""
