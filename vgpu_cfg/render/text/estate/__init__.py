"""Terminal output on an estate: hosts, GPUs and NICs, profiles, templates, roles."""
