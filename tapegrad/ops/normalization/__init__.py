"""Batch, layer, group, instance and RMS normalization.

primitives.py declares the fused normalization, with_relu.py the one followed by a ReLU, and
functions.py has the functions for users.
"""
