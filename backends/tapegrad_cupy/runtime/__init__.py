"""Device memory, copies to the host, and the CuPy namespace."""
