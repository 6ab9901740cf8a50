"""Mutation score: small faults are put into the product, and the tests that run them must fail."""
