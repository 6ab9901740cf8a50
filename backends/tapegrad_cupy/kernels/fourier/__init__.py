"""Real Fourier transforms by cuFFT, and frames of signals."""
