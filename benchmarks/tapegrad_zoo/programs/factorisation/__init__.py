"""Factorisation: matrices and scenes explained by few hidden quantities."""
