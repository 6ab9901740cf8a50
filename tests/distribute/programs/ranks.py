"""Print the rank and a sum over all processes."""

import tapegrad as tf
from tapegrad import distribute

distribute.init(timeout=20)
total = distribute.all_reduce(tf.constant(float(distribute.rank())))
print(f"rank {distribute.rank()} of {distribute.size()}: sum {float(total)}", flush=True)
