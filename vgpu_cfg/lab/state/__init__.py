"""What a simulated vCenter keeps of its objects, and how that is saved; it refuses nothing."""
