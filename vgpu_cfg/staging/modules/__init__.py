"""What each module of a guest writes: one file per kind, by subject, each with `stage(module, context)`."""
