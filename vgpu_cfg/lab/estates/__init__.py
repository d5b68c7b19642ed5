"""What an estate file may say, and where estates are found."""
