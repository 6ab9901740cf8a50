"""The modules of SciPy that HIPS autograd has: special, stats, linalg, signal, integrate."""
