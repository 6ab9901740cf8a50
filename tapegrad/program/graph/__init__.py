"""The recorded graph and its analyses."""
