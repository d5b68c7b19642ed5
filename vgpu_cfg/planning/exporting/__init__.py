"""What would a plan file say of VMs and hosts that are there, if planning on it is to find nothing to do.

    observed ──▶ selection ──▶ the keys of each VM and host ──▶ lines ──▶ text ──▶ planned once, to be sure

Nothing here reads or writes: an inventory comes in, and the text of a plan file goes out.
"""
