"""Many trajectories at once: each has its own steps, and all take them in one loop.

steps     step size control; methods: one attempt of an explicit method or of Radau
bdf       backward differentiation formulas, whose steps depend on the steps before
flow      states at the requested times, with gradients
"""
