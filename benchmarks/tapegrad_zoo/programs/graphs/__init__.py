"""Graph networks: messages along edges, gathered and summed by node."""
