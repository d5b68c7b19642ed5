"""The refusals of the simulated vCenter and its hosts, with their faults: a judge apart from any planner."""
