"""The demo, its data and its progress bar."""

from __future__ import annotations

import io
import re
import runpy
import sys

import numpy as np
import pytest

from tapegrad.demo import digits, progress
from tapegrad.random import Generator
from tests.house.sources import ROOT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_digits_are_complete_and_scaled():
    train_images, train_labels, test_images, test_labels = digits.load_digits()

    images = np.concatenate([train_images, test_images])
    labels = np.concatenate([train_labels, test_labels])
    assert images.shape == (1797, 64)
    assert (images.dtype, images.min(), images.max()) == (np.float32, 0.0, 1.0)
    # The counts of the ten digits as the source gives them.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_every_digit_is_held_out_in_the_same_share():
    _, train_labels, _, test_labels = digits.load_digits()

    share = np.bincount(test_labels) / (np.bincount(test_labels) + np.bincount(train_labels))
    assert np.all(np.abs(share - 0.2) < 0.01)


def test_the_split_is_the_same_every_time():
    first, second = digits.load_digits(), digits.load_digits()

    assert all(np.array_equal(a, b) for a, b in zip(first, second))


def test_the_demo_reaches_97_percent_and_prints_what_it_measured(capsys):
    assert digits.main(["--device", "cpu"]) == 0

    printed = capsys.readouterr().out
    accuracy = re.search(r"^held-out accuracy ([\d.]+)%$", printed, flags=re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) >= 97.0
    assert re.search(r"^last batch's loss [\d.]+$", printed, flags=re.MULTILINE)
    assert re.search(r"^device +cpu$", printed, flags=re.MULTILINE)
    assert re.search(r"^time per step +[\d.]+ ms$", printed, flags=re.MULTILINE)


def test_the_same_seed_gives_the_same_accuracy():
    first = digits.train(epochs=1, batch=64, seed=3)
    second = digits.train(epochs=1, batch=64, seed=3)

    assert first.accuracy == second.accuracy


@pytest.mark.parametrize(("epochs", "batch", "steps"), [(1, 64, 23), (2, 1442, 2), (1, 2000, 1)])
def test_the_time_per_step_counts_every_step_once(monkeypatch, epochs, batch, steps):
    clock = iter([100.0, 100.0 + 3 * steps])
    monkeypatch.setattr(digits.time, "perf_counter", lambda: next(clock))

    result = digits.train(epochs=epochs, batch=batch, seed=0)

    assert (result.steps, result.milliseconds_per_step) == (steps, 3000.0)


def test_activations_keep_their_scale_at_the_start():
    network = digits.Network(Generator.from_seed(1))
    images = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)

    # A weight of variance 2 / inputs makes up for the half that relu cuts off.
    for weight, inputs in ((network.w1, 64), (network.w2, 256)):
        assert np.std(weight.numpy()) == pytest.approx((2 / inputs) ** 0.5, rel=0.05)
    assert np.mean(network(images).numpy() ** 2) == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("option", ["--epochs", "--batch"])
@pytest.mark.parametrize("value", ["0", "-3", "many"])
def test_a_number_that_makes_no_sense_is_refused(option, value, capsys):
    with pytest.raises(SystemExit):
        digits.main([f"{option}={value}"])

    expected = f"argument {option}: expected an integer of at least 1, got '{value}'"
    assert expected in capsys.readouterr().err


def test_the_example_learns_the_digits(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["digits.py"])

    runpy.run_path(str(ROOT / "examples" / "digits.py"), run_name="__main__")

    last = capsys.readouterr().out.splitlines()[-1]
    assert float(last.removeprefix("held-out accuracy ").removesuffix("%")) >= 97.0


def test_losses_that_have_arrived_are_shown_and_the_others_not_waited_for():
    class Loss:
        def __init__(self, value, is_there):
            self.value, self.is_there = value, is_there

        def numpy_later(self):
            return self

        def done(self):
            return self.is_there

        def result(self):
            return self.value

    losses = digits.Losses()
    assert str(losses) == ""

    losses.add(Loss(1.5, True))
    losses.add(Loss(0.25, False))

    assert str(losses) == "loss 1.500"
    assert losses.wait() == 0.25


def test_the_bar_shows_a_note(monkeypatch):
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    stream = Terminal()
    notes = iter(["", "loss 2.000", "loss 1.000"])

    assert list(progress.track("ab", "Training", stream, lambda: next(notes))) == ["a", "b"]

    assert stream.getvalue().endswith("2/2 loss 1.000\n")


def test_nothing_is_drawn_where_there_is_no_terminal():
    stream = io.StringIO()

    assert list(progress.track(range(3), "Training", stream)) == [0, 1, 2]
    assert stream.getvalue() == ""


def test_without_rich_the_bar_is_one_line_of_text(monkeypatch):
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    stream = Terminal()

    assert list(progress.track("ab", "Training", stream)) == ["a", "b"]

    frames = stream.getvalue().rstrip("\n").split("\r")[1:]
    assert frames[0] == f"Training [{'.' * 40}] 0/2"
    assert frames[1] == f"Training [{'#' * 20}{'.' * 20}] 1/2"
    assert frames[2] == f"Training [{'#' * 40}] 2/2"


def test_each_state_of_the_bar_is_shown_before_the_next_item(monkeypatch):
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)

    class Buffered(Terminal):
        shown = ""

        def flush(self) -> None:
            self.shown = self.getvalue()

    stream = Buffered()

    ends = [stream.shown.split(" ")[-1] for _ in progress.track("abc", "Training", stream)]

    assert ends == ["0/3", "1/3", "2/3"]
    assert stream.shown.endswith("3/3")


def test_with_rich_each_item_moves_the_bar_by_one(monkeypatch):
    rich_progress = pytest.importorskip("rich.progress")
    bars = []

    class Noted(rich_progress.Progress):
        def __init__(self, **options) -> None:
            super().__init__(**options)
            bars.append(self)

    monkeypatch.setattr(rich_progress, "Progress", Noted)

    done = [
        (bars[0].tasks[0].completed, bars[0].tasks[0].total)
        for _ in progress.track("abc", "Training", Terminal())
    ]

    assert done == [(0, 3), (1, 3), (2, 3)]
    assert bars[0].tasks[0].finished


def test_with_rich_the_bar_goes_to_the_same_stream():
    pytest.importorskip("rich")
    stream = Terminal()

    assert list(progress.track("abc", "Training", stream)) == ["a", "b", "c"]
    assert "Training" in stream.getvalue()
