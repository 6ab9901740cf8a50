"""Tensors, variables, data types, devices and conversions between them."""
