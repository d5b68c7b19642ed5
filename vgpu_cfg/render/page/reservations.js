// Tables alone: they stand in the page.
