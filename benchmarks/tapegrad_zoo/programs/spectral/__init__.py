"""Programs that compute with Fourier transforms of fields."""
