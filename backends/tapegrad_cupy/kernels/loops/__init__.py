"""Fused loops of recorded programs, compiled to CUDA kernels."""
