"""Matrix products on cuBLASLt."""
