"""plan.json as a public document: its schema, and what of it may change."""
