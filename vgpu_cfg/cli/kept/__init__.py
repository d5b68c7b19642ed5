"""What a command keeps in files: saved plans, baselines, histories, and the reasons a context asks for."""
