"""Elementwise kernels, compiled from traced formulas."""
