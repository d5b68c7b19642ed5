// Nothing of its own: findings are sections of rows with a search.
