"""From a plan file's sections to what is desired. Pure: data in, data and faults out.

The one file that is read meanwhile, a guest's user data, is read by what the caller passes in.
"""
