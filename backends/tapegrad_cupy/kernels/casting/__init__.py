"""Casts of many arrays in one launch."""
