"""Fourier transforms and short-time spectra.

transforms.py declares the Fourier transforms and frames.py framing and the STFT; functions.py has
transforms over 2 and 3 axes, shifts and cosine transforms, tapers.py window functions.
"""
