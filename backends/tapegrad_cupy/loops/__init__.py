"""Loops of recorded programs in CUDA."""
