"""An estate as a picture, with the effect of a plan, or the rest without a part."""
