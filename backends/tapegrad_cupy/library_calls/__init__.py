"""Calls of cuBLASLt and cuDNN, and their replay as kernel launches."""
