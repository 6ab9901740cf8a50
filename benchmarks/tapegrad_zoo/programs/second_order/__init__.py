"""Per-example gradients and second derivatives."""
