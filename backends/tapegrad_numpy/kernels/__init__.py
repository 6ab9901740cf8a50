"""NumPy kernels by family."""
