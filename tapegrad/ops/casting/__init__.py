"""Conversions between data types.

cast.py declares cast; batched_casts.py casts many variables in one launch, promotion.py has the
dtype promotion rules.
"""
