"""The guests: their specs, outdated parts, and obstacles."""
