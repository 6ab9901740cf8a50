"""Random numbers, equal to those of the NumPy backend."""
