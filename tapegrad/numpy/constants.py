"""NumPy's constants."""

import math

e = math.e
euler_gamma = 0.5772156649015329
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi
little_endian = True
