"""Reductions, cumulative reductions and statistics over axes.

primitives.py has the reductions under their Array API names, functions.py under TensorFlow's
names. The other files hold one topic each, primitives included.
"""
