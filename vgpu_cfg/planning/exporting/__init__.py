"""Export existing VMs and hosts to a plan file on which planning finds nothing to do.

    observed ──▶ selection ──▶ the keys of each VM and host ──▶ lines ──▶ text ──▶ planned once, to be sure

Nothing here reads or writes: an inventory comes in, and the text of a plan file goes out.
"""
