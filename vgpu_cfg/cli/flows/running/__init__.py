"""How a plan is decided on, carried out, read back and taken back."""
