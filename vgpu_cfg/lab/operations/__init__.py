"""What the methods do to the state: one file per subject."""
