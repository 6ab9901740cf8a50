"""Named functions with a definition in simpler operations, in the words that people use."""
