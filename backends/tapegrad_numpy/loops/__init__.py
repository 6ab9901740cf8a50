"""Loops in C, compiled on this machine: fused elementwise kernels for NumPy arrays."""
