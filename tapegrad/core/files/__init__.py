"""Files that other processes or other people may touch: atomic writes, private caches, limits."""
