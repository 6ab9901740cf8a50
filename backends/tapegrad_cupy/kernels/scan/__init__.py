"""Cumulative sums, products, logsumexp, extremes, and linear recurrences."""
