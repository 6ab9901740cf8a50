"""Fused loops for NumPy arrays, compiled from C on this machine."""
