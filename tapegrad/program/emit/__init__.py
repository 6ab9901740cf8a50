"""Code generation: from fused steps to a function that runs them."""
