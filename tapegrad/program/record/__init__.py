"""Recording: run the first call of a function on arrays that trace its operations."""
