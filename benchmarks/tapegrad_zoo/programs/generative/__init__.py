"""Generative models: likelihoods, adversaries, noise and codes."""
