"""CUDA sources, compilation, launches and their replay."""
