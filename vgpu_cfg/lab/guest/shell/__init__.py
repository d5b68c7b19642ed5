"""How a guest runs a line of shell, and the programs that go on by themselves."""
