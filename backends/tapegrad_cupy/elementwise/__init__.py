"""Elementwise kernels, compiled from the formulas of kernels and rules."""
