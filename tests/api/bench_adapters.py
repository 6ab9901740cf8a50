"""Faulty adapters for test_bench.py: each `mode` is one fault."""

from __future__ import annotations

import os
import signal
import sys
import time

from tapegrad_bench.adapters.library import OnHost, Prepared, UnsupportedError
from tapegrad_bench.adapters.on_numpy import Numpy


class Misbehaving(OnHost):
    version = "0"

    def prepare(self, mode, problem):
        honest = Numpy().prepare("handwritten", problem)
        if mode == "honest":
            return honest
        if mode == "refusing":
            raise UnsupportedError("It does not want to.")
        if mode == "raising":
            raise ValueError("No such luck.\nAnd more.")
        return Prepared(
            lambda: getattr(self, mode)(honest), honest.fetch, honest.gradients and honest.step
        )

    def lying(self, honest):
        loss, gradients = honest.step()
        return loss, [gradient * 1.01 for gradient in gradients]

    def shrinking(self, honest):
        loss, gradients = honest.step()
        return loss, [gradient[:-1] for gradient in gradients]

    def crashing(self, honest):
        sys.stderr.write("So long.\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def sleeping(self, honest):
        time.sleep(600)


def load(device):
    return Misbehaving()
