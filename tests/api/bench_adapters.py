"""Faulty adapters for test_bench.py: each `mode` is one fault."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace

from tapegrad_bench.adapters.library import OnHost, UnsupportedError
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
        return replace(honest, step=lambda: getattr(self, mode)(honest))

    def lying(self, honest):
        loss, gradients = honest.step()
        return loss, [gradient * 1.01 for gradient in gradients]

    def wrong_at_size(self, honest):
        loss, gradients = honest.step()
        wrong = 1.0 if gradients[0].size < 1000 else 1.01
        return loss, [gradient * wrong for gradient in gradients]

    def stale_at_last(self, honest):
        if not hasattr(self, "kept"):
            self.kept = []
        self.kept.append(honest.step())
        # Six steps are those of the check at the small size and of the one before the timing.
        return self.kept[-1] if len(self.kept) <= 6 else self.kept[5]

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
