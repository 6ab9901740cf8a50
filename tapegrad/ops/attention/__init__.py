"""Scaled dot-product attention.

primitives.py declares attention with its backward pass; functions.py has the function for users
and the rotary position embedding.
"""
