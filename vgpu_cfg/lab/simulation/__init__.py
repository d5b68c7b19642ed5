"""What all parts of the lab work on: the state as time passes, tasks, sessions, and who answers a method."""
