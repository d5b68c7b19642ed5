"""Which texts are known, by where they are met: each file a place, each row a failure."""
