"""Reinforcement learning: updates of policies and values from recorded experience."""
