"""The sample table against the values and the derivatives of JAX and PyTorch."""
