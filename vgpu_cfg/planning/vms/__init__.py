"""What each VM of the plan shall be, and which changes bring it there."""
