"""What a command needs before it changes anything: what it was asked, rights, locks, facts, an id."""
