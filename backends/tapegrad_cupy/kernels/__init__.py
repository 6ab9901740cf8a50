"""CUDA kernels by family."""
