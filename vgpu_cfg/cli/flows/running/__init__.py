"""Running a plan: decided on, carried out, read back and rolled back."""
