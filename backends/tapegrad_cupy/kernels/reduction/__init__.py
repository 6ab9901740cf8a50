"""Sums, means and norms over axes."""
