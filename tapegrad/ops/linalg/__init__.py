"""Linear algebra over the last two axes; leading axes are a stack of matrices.

Each decomposition or solver has a file with its primitives and functions. matrix_functions.py
declares expm, sqrtm, logm and matrix_rank, and functions.py calls them; common.py has helpers.
"""
