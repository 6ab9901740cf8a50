from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.cli import main
from tapegrad.core.eager_hooks import is_any_hooked
from tapegrad.core.event_log import LOGS, Event
from tapegrad.debug.reports.memory_curve import MemoryCurve, bands
from tapegrad.debug.reports.times import own_times


class Texts(HTMLParser):
    """The tags of a page, and its data."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.data, self._inside = [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self._inside = dict(attributes).get("id", "")

    def handle_data(self, text):
        if self._inside == "report-data":
            self.data += text

    def handle_endtag(self, tag):
        self._inside = ""


def here(text):
    """The number of the only line of this file that ends with a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{__file__}:{number}"


def test_operations_are_counted_and_timed_by_line(tmp_path):
    x = tf.constant(np.ones((100, 100), "float32"))
    with tf.debug.report(tmp_path / "r.html") as made:
        for _ in range(7):
            x = tf.sin(x)  # the sines

    (line,) = [row for row in made.summary["lines"] if row["name"] == "sin"]
    assert (line["site"], line["calls"], line["kind"]) == (here("the sines"), 7, "kernel")
    assert line["text"].startswith("x = tf.sin(x)")
    assert 0 < line["own"] / 1e9 < made.summary["seconds"]


def test_the_page_needs_no_other_file_and_holds_its_data(tmp_path):
    with tf.debug.report(tmp_path / "r.html", title="a <b>&amp; </script>") as made:
        tf.Variable(tf.ones([2]), name="</script><img src=x>")

    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    found = Texts(page)
    assert found.tags.count("script") == 2
    assert "img" not in found.tags
    assert not re.search(r"""(src|href)=["']?http""", page)
    data = json.loads(found.data)
    assert data["title"] == "a <b>&amp; </script>"
    assert data["timeline"]["all"] == len(data["timeline"]["events"])
    assert made.summary["error"] == ""


def test_memory_over_time_is_that_of_the_arrays(tmp_path):
    with tf.debug.report(tmp_path / "r.html") as made:
        x = tf.ones([256, 1024])
        y = x * 2.0  # a mebibyte
        z = y * 2.0
        del y
        w = z * 2.0

    memory = made.summary["memory"]
    one = 2**20
    assert memory["peak"] in (3 * one, 4 * one)  # `ones` may be a view of one number
    band = next(band for band in memory["bands"] if band["name"] == here("a mebibyte"))
    assert max(band["bytes"]) == one
    assert band["bytes"][-1] == 0
    held = {row["where"]: row["bytes"] for row in made.summary["held"] if row["what"] == "tensors"}
    assert here("a mebibyte") not in held
    assert w.shape == z.shape


def test_tapes_and_lost_gradients_are_explained(tmp_path):
    a, b = tf.Variable(np.ones((64, 64))), tf.Variable(1.0, name="idle")
    with tf.debug.report(tmp_path / "r.html") as made:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.exp(a))  # kept
        g = tape.gradient(y, [a, b])  # swept

    assert g[1] is None
    (tape,) = made.summary["tapes"]
    rows = {row["site"]: row["bytes"] for row in tape["rows"]}
    assert tape["site"] == here("swept")
    assert rows[here("kept")] == 64 * 64 * 8
    (lost,) = made.summary["lost"]
    assert "idle" in lost["source"]
    assert "never read" in lost["reason"]
    (series,) = made.summary["series"]
    assert series["points"] == [(1, pytest.approx(64 * 64 * np.e))]


def test_recordings_and_the_steps_of_programs_are_shown(tmp_path):
    @tf.function(wait=True)
    def step(x):
        y = tf.matmul(x, x)  # the product
        return tf.reduce_sum(tf.tanh(y))

    # The steps of a program have times on the CPU.
    with tf.device("cpu"), tf.debug.report(tmp_path / "r.html") as made:
        for size in (30, 40):
            for _ in range(3):
                step(tf.ones([size, size]))

    (found,) = made.summary["functions"]
    reasons = [note["reason"] for note in found["recordings"]]
    assert reasons[0] == "first call"
    assert "float32[40, 40]" in (reasons[1:] or [note["reason"] for note in found["made"]])[0]
    lines = {row["site"]: row["share"] for row in made.summary["in_programs"]}
    assert here("the product") in lines
    assert sum(lines.values()) == pytest.approx(1.0)
    assert made.summary["counts"]["program"] + made.summary["counts"]["record"] == 6


def test_timing_the_steps_changes_no_variable(tmp_path):
    count = tf.Variable(np.zeros(3))

    @tf.function(wait=True)
    def add(x):
        count.assign_add(x)
        return count + 0.0

    with tf.debug.report(tmp_path / "r.html"):
        for _ in range(5):
            add(tf.constant([1.0, 2.0, 3.0], "float64"))

    assert count.numpy().tolist() == [5.0, 10.0, 15.0]


def test_errors_and_eager_calls_of_functions_pass_through(tmp_path):
    @tf.function(wait=True)
    def failing(x):
        raise ValueError("of the user")

    @tf.function(jit=False)
    def eager(x):
        return x * 2.0

    with tf.debug.report(tmp_path / "r.html") as made:
        with pytest.raises(ValueError, match="of the user"):
            failing(tf.ones([2]))
        assert eager(tf.ones([2])).tolist() == [2.0, 2.0]

    counts = {row["name"]: row["kind"] for row in made.summary["lines"]}
    assert counts["eager"] == "call"
    (reason,) = made.summary["functions"][1]["eager"].values()
    assert reason == 1


def test_waits_for_data_and_losses_of_fit_are_noted(tmp_path):
    x = np.linspace(-1.0, 1.0, 64, dtype="float32").reshape(-1, 1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    dataset = tf.data.Dataset.from_tensor_slices((x, x)).batch(16)
    with tf.debug.report(tmp_path / "r.html") as made:
        history = model.fit(dataset, epochs=2, verbose=0)

    (data,) = made.summary["data"]
    assert data["calls"] == 10
    series = {one["name"]: one["points"] for one in made.summary["series"]}
    assert len(series["fit: loss"]) == 8
    epochs = [value for _, value in series["fit, by epoch: loss"]]
    assert epochs == pytest.approx(history.history["loss"])


def test_the_report_is_written_if_the_block_raises(tmp_path):
    def failing():
        with tf.debug.report(tmp_path / "r.html", tmp_path / "t.json"):
            tf.sin(tf.constant(1.0))
            raise ZeroDivisionError("division by zero")

    with pytest.raises(ZeroDivisionError):
        failing()

    assert "ZeroDivisionError: division by zero" in (tmp_path / "r.html").read_text("utf-8")
    trace = json.loads((tmp_path / "t.json").read_text("utf-8"))["traceEvents"]
    assert "sin" in [event["name"] for event in trace if event["ph"] == "X"]
    assert not LOGS
    assert not is_any_hooked()


def test_a_report_inside_of_a_report_is_refused(tmp_path):
    with (
        tf.debug.report(tmp_path / "r.html"),
        pytest.raises(tf.errors.AlreadyExistsError, match="A report is being made"),
        tf.debug.report(tmp_path / "inner.html"),
    ):
        pass

    assert (tmp_path / "r.html").exists()
    assert not (tmp_path / "inner.html").exists()


def test_a_folder_that_is_missing_is_named_before_the_run(tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="There is no folder"):
        tf.debug.report(tmp_path / "missing" / "r.html")


def test_own_times_add_up_to_the_time_that_is_covered():
    rng = np.random.default_rng(0)
    events, covered = [], set()
    for start in range(0, 1000, 50):
        end = start + int(rng.integers(10, 50))
        events.append(Event("sweep", "s", "", 1, start, end))
        covered.update(range(start, end))
        cuts = np.sort(rng.choice(np.arange(start, end), 4, replace=False))
        events += [Event("kernel", "k", "", 1, a, b) for a, b in (cuts[:2], cuts[2:])]
    rows = list(own_times([events[k] for k in rng.permutation(len(events))], 0))

    assert sum(own for _, own, _ in rows) == len(covered)
    last = max(event.end for event in events)
    assert sum(before for _, _, before in rows) == last - len(covered)


def test_bands_hold_each_local_maximum():
    times, found = bands([(1, "a", 5), (2, "b", 7), (3, "b", -7), (990, "a", -5)], 0, 1000)

    assert max(found["b"]) == 7
    assert found["a"][-1] == 0
    assert times[-1] == 1000


def test_views_of_operands_are_no_new_memory():
    curve, x = MemoryCurve(), np.ones((4, 4))
    curve.note((x,), x.T, "a.py:1")
    made = x + 1
    curve.note((x,), made, "a.py:2")

    assert [(site, size) for _, site, size in curve.changes] == [("a.py:2", 128)]


def test_switches_that_are_on_before_functions_are_imported_count():
    code = (
        "from tapegrad.core.eager_hooks import switch_hook\n"
        "switch_hook('events', True)\n"
        "from tapegrad.program.eager_mode import SETTINGS\n"
        "print(SETTINGS['slow'])"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)

    assert done.stdout == "True\n"


# The command.


def run_command(tmp_path, code, argument):
    script = tmp_path / "program.py"
    script.write_text(code, encoding="utf-8")
    return main(["report", "-o", str(tmp_path / "r.html"), str(script), argument])


CODE = """
import sys
import tapegrad as tf

print(tf.sin(tf.constant(0.0)).numpy(), sys.argv[1:])
"""


def test_the_command_runs_a_program_and_writes_a_page(tmp_path, capsys):
    argv, module = sys.argv, sys.modules["__main__"]
    assert run_command(tmp_path, CODE, "first") == 0

    out, err = capsys.readouterr()
    assert out == "0.0 ['first']\n"
    assert " operations in " in err
    assert "program.py:5" in (tmp_path / "r.html").read_text("utf-8")
    assert sys.argv is argv
    assert sys.modules["__main__"] is module


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('bad input')", 1, "bad input"),
        ("raise KeyboardInterrupt", 130, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_the_exit_status_is_that_of_the_program(tmp_path, capsys, line, status, text):
    assert run_command(tmp_path, line, "x") == status

    err = capsys.readouterr().err
    assert text in err
    assert "commands/report.py" not in err
    assert (tmp_path / "r.html").exists()


def test_a_program_that_is_missing_or_not_python_is_reported(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none.py")]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert run_command(tmp_path, "def", "x") == 1
    assert "SyntaxError" in capsys.readouterr().err


def test_json_has_the_figures(tmp_path, capsys):
    script = tmp_path / "program.py"
    script.write_text(CODE, encoding="utf-8")
    assert main(["report", "--json", "-o", str(tmp_path / "r.html"), str(script)]) == 0

    found = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert found["status"] == 0
    assert found["counts"]["kernel"] >= 1
