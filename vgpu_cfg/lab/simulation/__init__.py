"""The basis of all parts of the lab: the state over time, tasks, sessions, and the handlers of methods."""
