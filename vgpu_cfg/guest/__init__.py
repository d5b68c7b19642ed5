"""The shell of a guest over SSH: whose host key is believed, who logs in, and what each failure means."""
