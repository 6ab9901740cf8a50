"""Networks of convolutions in one, two and three dimensions."""
