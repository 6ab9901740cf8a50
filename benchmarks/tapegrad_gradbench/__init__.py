"""The evaluations of GradBench (https://gradbench.dev) written with tapegrad, and their runner.

    python -m tapegrad_gradbench --suite PATH --tools tapegrad jax pytorch --record FILE

`evaluations` has one module per evaluation, `tool` answers an evaluation over standard input and
output, `session` pairs both without containers, and `record` keeps the times. PATH is a checkout of
the suite, which this package does not contain.
"""
