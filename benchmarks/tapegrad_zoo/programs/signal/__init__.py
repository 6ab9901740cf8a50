"""Signals in time."""
