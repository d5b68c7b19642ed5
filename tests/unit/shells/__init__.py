"""How a shell on another machine is reached and used."""
