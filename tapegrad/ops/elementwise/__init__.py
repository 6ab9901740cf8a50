"""Elementwise primitives and functions, one file per topic.

arithmetic.py has the operations that derivative rules use, activations.py and sigmoids.py the
activation functions, special_functions.py and bessel.py the special functions.
"""
