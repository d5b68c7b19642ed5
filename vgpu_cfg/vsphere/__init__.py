"""The only client of vCenter. Values of pyvmomi's types never leave it."""
