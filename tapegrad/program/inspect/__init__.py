"""Text, costs, memory and drawings of programs."""
