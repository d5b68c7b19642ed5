"""How the pool of GPUs reads: who holds it, how it is used, what more fits, what would become of it."""
