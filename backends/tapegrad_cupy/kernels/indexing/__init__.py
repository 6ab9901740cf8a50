"""Gather, scatter and search."""
