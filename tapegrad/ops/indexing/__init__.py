"""Indexing, gather and scatter, sorting, and segment reductions.

primitives.py has basic slicing and its transpose; functions.py reads and writes with NumPy's
indexing, which index_plan.py parses. The other files hold one topic each, primitives included.
"""
