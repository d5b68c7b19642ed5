"""The wheel, installed as a user does, on each Python that the package says it runs on."""
