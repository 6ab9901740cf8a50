"""Particles and masses that act on each other."""
