"""What errors mean and what to do about them, as data with as little code as that needs."""
