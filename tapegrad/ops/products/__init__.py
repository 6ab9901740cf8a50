"""Matrix products and tensor contractions.

primitives.py has the matrix products, fused.py those with a bias, residual or activation;
functions.py has matmul, dot and tensordot, einsum.py the Einstein summation.
"""
