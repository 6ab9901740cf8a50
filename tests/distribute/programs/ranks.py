"""Print the rank and a sum over all processes."""

import sys

import tapegrad as tf
from tapegrad import distribute

distribute.init(timeout=20)
total = distribute.all_reduce(tf.constant(float(distribute.rank())))
# In one piece, because mpiexec mixes the output of both processes.
sys.stdout.write(f"rank {distribute.rank()} of {distribute.size()}: sum {float(total)}\n")
