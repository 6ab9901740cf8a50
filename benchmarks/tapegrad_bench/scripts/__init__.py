"""`tapegrad bench --peers jax,torch script.py`: the functions of a script in other libraries."""
