"""Primitives and functions on tensors, in one folder per family.

In a family, primitives.py declares primitives with their rules and generic kernels, and
functions.py has functions that declare none. creation.py, composed.py, half.py and kinds.py are
families of one file.
"""
