"""Estimate a model's training: memory, GPUs, network, time, the room."""
