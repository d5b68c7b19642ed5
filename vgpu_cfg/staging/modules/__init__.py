"""What each module of a guest writes: one file per kind, each with `stage(module, context)`."""
