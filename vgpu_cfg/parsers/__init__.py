"""Output of tools on hosts and guests as plain values: text in, model out, nothing else."""
