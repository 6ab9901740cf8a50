"""Loop fusion: group calls into loops."""
