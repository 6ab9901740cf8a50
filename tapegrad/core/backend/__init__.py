"""The backend contract and the registry of backends."""
