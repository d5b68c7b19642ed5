// Nothing of its own: what differs is sections of rows with a search.
