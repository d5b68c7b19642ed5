"""Two versions of the package beside each other: the same commands, compared to the byte."""
