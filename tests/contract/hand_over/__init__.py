"""What `hand-over` writes is read by the tool that it is for, or held against the tool's own schema."""
