"""The meaning and remedy of errors, as data with as little code as possible."""
