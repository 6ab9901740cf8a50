"""Sequences of steps of a program that run in one call in C."""
