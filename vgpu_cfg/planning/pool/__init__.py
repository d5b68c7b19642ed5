"""The GPUs of an estate as a pool: what runs where, what is free, what is stranded, and what still fits."""
