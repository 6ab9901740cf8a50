"""Convolution and pooling.

primitives.py declares the convolutions, pooling.py pooling; generic_kernels.py has their Array API
kernels, functions.py TensorFlow's convolutions, sequences.py NumPy's convolve and correlate.
"""
