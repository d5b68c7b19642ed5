"""The output of each guest module: one file per kind, by subject, each with `stage(module, context)`."""
