"""Primitives: declaration, derivative rules and dispatch."""
