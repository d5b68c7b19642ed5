"""An estate as rows: what there is, how it is wired, who uses it, what fits."""
