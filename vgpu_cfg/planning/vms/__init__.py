"""The wanted state of each VM of the plan, and the changes that lead there."""
