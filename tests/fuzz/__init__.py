"""Fuzzers: each hunts one class of faults from random seeds; `python -m tests.fuzz.NAME --help`."""
