"""The only client of vCenter: sessions, bulk reads, tasks, and the way in and out of pyvmomi's objects."""
