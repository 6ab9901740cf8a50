"""Kernels along rows and columns: softmax, cross entropy and normalisation."""
