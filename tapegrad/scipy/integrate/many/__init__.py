"""Many trajectories at once: each has its own steps, and all take them in one loop.

steps     step size control; methods: one attempt of an explicit method or of Radau
flow      states at the requested times, with gradients
"""
