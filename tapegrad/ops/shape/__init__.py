"""Changes of shape, and functions that move, join or split entries.

primitives.py has reshape, permute, broadcast, sum and to_device; functions.py the NumPy and
TensorFlow functions on them. The other files hold one topic each, primitives included.
"""
