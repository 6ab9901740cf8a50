"""Softmax, losses, dropout and gradient clipping.

softmax.py, cross_entropy.py and dropout.py declare primitives; losses.py and regression_losses.py
are TensorFlow's and Keras's functions on them, clipping.py clips gradients.
"""
