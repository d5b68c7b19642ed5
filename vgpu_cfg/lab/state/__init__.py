"""The objects of a simulated vCenter, and their storage; nothing is refused here."""
