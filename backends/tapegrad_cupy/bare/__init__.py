"""Calls of NVIDIA's libraries made as bare kernel launches, without the libraries' host work."""
