"""Distances between clouds of points by optimal transport."""
