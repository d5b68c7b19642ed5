"""How it reads what an estate has: hosts, GPUs and NICs, profiles, templates, roles."""
