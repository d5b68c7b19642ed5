"""What tools on hosts and guests print, as plain values: text in, model out, nothing else."""
