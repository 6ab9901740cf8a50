"""Trace kernels and rules to expression graphs of one element, and emit C for them."""
