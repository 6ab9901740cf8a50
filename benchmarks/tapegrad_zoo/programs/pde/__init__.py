"""Differential equations on grids."""
