"""Derivatives of all samples in other layouts, shapes and modes."""
