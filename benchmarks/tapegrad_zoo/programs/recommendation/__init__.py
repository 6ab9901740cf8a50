"""Recommendation: embedding tables, interactions of features, and ranking losses."""
