"""The domain's values: frozen, with no input or output of their own."""
