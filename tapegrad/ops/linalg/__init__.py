"""Linear algebra over the last two axes; leading axes are a stack of matrices."""
