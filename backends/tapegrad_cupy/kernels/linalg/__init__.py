"""Linear algebra: factorizations and solves by cuSOLVER and cuBLAS, small matrices by kernels."""
