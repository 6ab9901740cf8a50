"""Recorded programs as JSON values and arrays, to be run without the code that was recorded."""
