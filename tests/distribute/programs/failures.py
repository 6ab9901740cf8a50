"""Fail in one rank, in the way that is given, while the other one waits for it."""

import os
import signal
import sys
import time

import numpy as np

import tapegrad as tf
from tapegrad import distribute

way = sys.argv[1]
distribute.init(timeout=2.0 if way == "loop" else 60.0)
x = tf.constant(np.ones(3))
distribute.all_reduce(x)
start = time.monotonic()
if distribute.rank() == 1:
    if way == "error":
        raise ZeroDivisionError("the data of this rank are bad")
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if way == "loop":
        while True:
            time.sleep(0.01)
    if way == "order":
        distribute.all_gather(x)
    if way == "fewer":
        sys.exit(0)
try:
    distribute.all_reduce(x)
except tf.errors.AbortedError as error:
    print(
        f"noticed after {time.monotonic() - start:.1f} s:",
        str(error).replace("\n", " | "),
        flush=True,
    )
    raise
