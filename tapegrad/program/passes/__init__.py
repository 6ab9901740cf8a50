"""Optimisation passes over the recorded graph."""
