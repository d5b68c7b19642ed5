"""What a command keeps in files: saved plans, baselines, histories, pages, and what a context asks for."""
