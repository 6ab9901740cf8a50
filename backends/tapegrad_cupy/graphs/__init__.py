"""Capture of programs as CUDA graphs."""
