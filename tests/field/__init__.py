"""Public reports of what happened to people who do this job, tried with the commands that users type."""
