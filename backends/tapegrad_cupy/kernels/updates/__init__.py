"""Optimizer steps and clipping."""
