"""Turn a plan file's sections into the desired state. Pure: data in, data and faults out.

The one file read meanwhile, a guest's user data, is read by a function of the caller.
"""
