"""Kernels of eager mode that run large arrays through compiled loops."""
