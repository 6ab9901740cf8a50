"""Optimization of many small problems at once, in one iteration that finished problems sit out.

squares       Levenberg-Marquardt for least_squares, curve_fit and root
searches      line searches; minima: BFGS, L-BFGS and Newton-CG; within_bounds: L-BFGS
state         what an iteration of minima returns
fits, roots   the results in SciPy's form
"""
