"""Loops that are recorded once: their bodies are programs, and one call runs all rounds.

body_recording.py records a body, body.py turns it into a program, primitives.py runs rounds, and
counted.py and conditional.py record loops with their gradients. segments.py decides which loops
keep less for their gradients, and segmented.py records them. batched.py and batch_rules.py run
loops for many examples at once, forward.py with tangents. rows_in_place.py finds arrays of which
rounds write a few rows.
"""
