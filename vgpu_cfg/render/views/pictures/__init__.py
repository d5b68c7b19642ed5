"""An estate as a picture, with what a plan makes of it, or what is left of it without a part."""
