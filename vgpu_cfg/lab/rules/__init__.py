"""What the simulated vCenter and its hosts refuse, and with which fault: a judge apart from any planner."""
