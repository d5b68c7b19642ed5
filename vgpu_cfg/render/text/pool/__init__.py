"""The pool of GPUs on a terminal: holders, use, free room, and the effect of absences."""
