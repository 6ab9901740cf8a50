"""Random numbers, the same as on the host."""
