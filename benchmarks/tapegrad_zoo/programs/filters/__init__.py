"""Likelihoods of sequences with hidden states."""
