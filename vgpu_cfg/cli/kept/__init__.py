"""A command's files: saved plans, baselines, histories, pages, and the requirements of a context."""
