"""Random numbers.

primitives.py declares the draws from a given state; generator.py has Generator and the global seed,
functions.py and stateless.py TensorFlow's functions with and without a generator.
"""
