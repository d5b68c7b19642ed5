"""What things are: frozen values, with no input or output of their own."""
