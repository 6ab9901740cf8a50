"""Statistics: likelihoods and embeddings of data."""
