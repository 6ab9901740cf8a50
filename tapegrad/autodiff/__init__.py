"""Differentiation: reverse sweeps, forward mode, batching and the functions built on them."""
