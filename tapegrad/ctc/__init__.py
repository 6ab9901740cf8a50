"""Connectionist temporal classification: labels without alignment to a longer sequence.

An alignment has one class per step. It gives the labels when repetitions are merged and blanks are
removed after that.
"""
