"""Whether tests notice when code is wrong: small changes are put into functions, one at a time."""
