"""tapegrad bench --peers ... script.py: what it finds in a script, compares, times and refuses."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad_bench import command as bench
from tapegrad_bench.process import NotSupportedError, WorkerError
from tapegrad_bench.scripts import command, peer_side
from tapegrad_bench.scripts.agreement import difference, is_widened, judge
from tapegrad_bench.scripts.captured import Part, pack, unpack, widened
from tapegrad_bench.scripts.peer_side import PeerSession
from tapegrad_bench.scripts.recording import record
from tapegrad_bench.scripts.report import Row, table
from tapegrad_bench.scripts.tapegrad_side import ScriptSession
from tapegrad_bench.scripts.watching import SETS, run_script

pytest.importorskip("scipy")

TRAINING = """
import sys
import numpy as np
import tapegrad as tf

rng = np.random.default_rng(0)
w = tf.Variable(rng.normal(size=(4, 3)).astype("float32"))
optimizer = tf.optimizers.Adam(0.01)


class Model(tf.Module):
    @tf.function
    def predict(self, x, scale=1.0):
        return tf.nn.softmax(x @ w) * scale


@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.nn.tanh(x @ w)))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return {"loss": loss, "noise": tf.random.normal([2])}


model = Model()
for _ in range(int(sys.argv[1])):
    x = tf.constant(rng.normal(size=(5, 4)).astype("float32"))
    train(x)
    model.predict(x, scale=2.0)
"""


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


class InProcess:
    """A worker without a process: the requests of a session, and its errors."""

    def __init__(self, device, threads, session):
        self._session = session(device)

    def request(self, name, *arguments, timeout=None):
        try:
            return getattr(self._session, name)(*arguments)
        except peer_side.UnsupportedError as error:
            raise NotSupportedError(str(error)) from error
        except Exception as error:
            raise WorkerError(f"{type(error).__name__}: {error}") from error

    def stop(self):
        pass


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(command, "Worker", InProcess)


def rows_of(path, *arguments, peers=("numpy",), budget=0.1):
    plan = command.Plan(path, arguments, peers, budget=budget)
    return {(row.program, row.contender): row for row in command.rows(plan)}


def test_the_command_prints_a_table(script, capsys):
    status = bench.main(["--peers", "numpy", "--budget", "0.1", script(TRAINING), "3"])

    printed = capsys.readouterr().out
    assert status == 0
    for line in ("train ", "train, gradient", "predict"):
        assert line in printed
    assert "of float64" in printed
    assert "numpy has no gradients" in printed
    assert "ratio: time of the peer / time of tapegrad" in printed


def test_functions_agree_and_are_timed(script, in_process):
    rows = rows_of(script(TRAINING), "3")

    for program in ("train", "predict"):
        ours, theirs = rows[program, "tapegrad"], rows[program, "numpy"]
        assert ours.times
        assert ours.first_seconds > 0
        assert theirs.times
        assert theirs.ours == ours.times
        assert float(theirs.cells[4]) > 0
    gradient = rows["train, gradient", "numpy"]
    assert gradient.words == "numpy has no gradients"
    assert not gradient.times


def test_variables_keep_their_values(script):
    session = ScriptSession("cpu")
    session.run(script(TRAINING), ["2"])
    captured = unpack(session.packed(0))

    session.time(0, "step", 0.0)
    session.time(0, "gradient", 0.0)

    again = unpack(session.packed(0)).parts["step"].variables
    for one, other in zip(captured.parts["step"].variables, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_last_calls_are_the_sets_of_inputs(script):
    text = (
        "import sys, tapegrad as tf\n"
        "f = tf.function(lambda x: x * 2.0)\n"
        "[f(tf.constant([float(k)])) for k in range(int(sys.argv[1]))]\n"
        "f(tf.constant([1.0, 2.0])); f(tf.constant([99.0]))\n"
    )
    session = ScriptSession("cpu")
    (found,) = session.run(script(text), ["20"])

    inputs = unpack(session.packed(0)).inputs

    assert found.parts == ("step",)
    assert inputs[0][0].tolist() == [99.0]
    assert [given[0].tolist() for given in inputs[1:]] == [
        [float(k)] for k in range(19, 19 - (SETS - 2), -1)
    ]


def test_only_calls_of_the_last_program_are_sets(script):
    text = (
        "import tapegrad as tf\n"
        "f = tf.function(lambda x, twice: x * 2.0 if twice else x)\n"
        "[f(tf.constant([float(k)]), twice=k % 2 == 0) for k in range(5)]\n"
    )
    session = ScriptSession("cpu")
    session.run(script(text), [])

    inputs = unpack(session.packed(0)).inputs

    assert [given[0].tolist() for given in inputs] == [[4.0], [2.0], [0.0]]


def test_inputs_have_the_dtypes_of_a_signature(script):
    text = (
        "import numpy as np, tapegrad as tf\n"
        "@tf.function(input_signature=[tf.TensorSpec([2], 'float32')])\n"
        "def f(x):\n"
        "    return x * 2.0\n"
        "f([1.0, 2.0])\n"
    )
    session = ScriptSession("cpu")
    session.run(script(text), [])

    ((x,),) = unpack(session.packed(0)).inputs

    assert x.dtype == np.float32


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("tf.print(x); return x * 2.0", "There is no translation of act"),
        ("return tf.random.stateless_poisson([1], [1, 2], x)", "no translation of random_poisson"),
    ],
)
def test_a_primitive_without_a_translation_is_named(script, in_process, body, words):
    text = f"import tapegrad as tf\n@tf.function\ndef f(x):\n    {body}\nf(tf.constant([1.0]))\n"

    rows = rows_of(script(text)).values()

    assert any(words in row.words for row in rows)
    assert not any(row.times for row in rows)


def test_a_function_inside_another_is_no_program_of_its_own(script):
    text = (
        "import tapegrad as tf\n"
        "inner = tf.function(lambda x: x + 1.0)\n"
        "outer = tf.function(lambda x: inner(x) * 2.0)\n"
        "outer(tf.constant(1.0))\n"
    )

    assert len(run_script(script(text), [])) == 1


def test_a_function_that_runs_eagerly_has_a_row_that_says_so(script, in_process):
    text = (
        "import tapegrad as tf\n"
        "@tf.function\n"
        "def chosen(x):\n"
        "    return tf.boolean_mask(x, x > 0.0)\n"
        "chosen(tf.constant([1.0, -1.0]))\n"
    )
    with pytest.warns(UserWarning, match="eagerly"):
        rows = rows_of(script(text))

    (row,) = rows.values()
    assert row.words.startswith("no program: ")
    assert not row.times


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import tapegrad", "has called no tapegrad.function"),
        ("raise RuntimeError('the data is gone')", "failed. .*the data is gone"),
        ("raise SystemExit(3)", "exit status 3"),
    ],
)
def test_a_script_that_cannot_be_compared_is_explained(script, in_process, text, words):
    with pytest.raises(ArgumentError, match=words):
        rows_of(script(text))


def test_wrong_words_are_refused(script):
    path = script(TRAINING)
    with pytest.raises(ArgumentError, match="There is no script"):
        run_script(path + "x", [])
    with pytest.raises(ArgumentError, match=r"compared with numpy, jax, torch\. Got 'matlab'"):
        bench.main(["--peers", "matlab", path])
    with pytest.raises(ArgumentError, match="one device"):
        bench.main(["--device", "cpu,cuda", path])
    with pytest.raises(ArgumentError, match=r"cpu or cuda\. Got 'tpu'"):
        bench.main(["--device", "tpu", path])


def test_arguments_of_the_script_are_its_own(script, monkeypatch):
    found = []
    monkeypatch.setattr(command, "run", lambda plan: found.append(plan) or 0)

    bench.main(["--peers", "numpy,torch", "--device", "cuda", "a.py", "--peers", "7", "b"])

    assert found == [command.Plan("a.py", ("--peers", "7", "b"), ("numpy", "torch"), "cuda")]


def captured(function, *args):
    """Return the step of a function as data, with the results of the call."""
    recorded = record(function, (args, {}))
    expected = [y.numpy() for y in tf.nest.flatten(function(*args))]
    return recorded, Part(recorded.step, [], expected)


def test_a_peer_that_is_missing_or_old_says_so(monkeypatch):
    def version(name):
        if name == "jax":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.9.1+cu117"

    monkeypatch.setattr(importlib.metadata, "version", version)

    with pytest.raises(peer_side.UnsupportedError, match="jax is not installed"):
        PeerSession("cpu").load("jax")
    with pytest.raises(peer_side.UnsupportedError, match=r"torch 1.9.1\+cu117 is too old: 2.4"):
        PeerSession("cpu").load("torch")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "^out of memory$"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "^out of memory$"),
        (ValueError("no such kernel\nmore"), "^ValueError: no such kernel$"),
    ],
)
def test_a_peer_that_fails_does_not_stop_the_others(script, in_process, monkeypatch, error, words):
    def fail(peer, part):
        raise error

    monkeypatch.setattr(peer_side, "make_step", fail)
    text = "import tapegrad as tf\ntf.function(lambda x: x * 2.0)(tf.constant([1.0]))"

    rows = rows_of(script(text))

    assert rows["<lambda>", "tapegrad"].words == "not timed: no peer agrees"
    peer = rows["<lambda>", "numpy"]
    assert not peer.times
    assert re.search(words, peer.words)


def test_a_peer_that_is_wrong_is_never_timed(script, in_process, monkeypatch):
    correct = peer_side.make_step

    class Wrong:
        def __init__(self, peer, part):
            self._step = correct(peer, part)

        def __call__(self, inputs):
            return [y + 0.01 for y in self._step(inputs)]

        def synchronize(self, results):
            pass

    monkeypatch.setattr(peer_side, "make_step", Wrong)
    text = "import tapegrad as tf\ntf.function(lambda x: x * 2.0)(tf.constant([1.0]))"

    row = rows_of(script(text))["<lambda>", "numpy"]

    assert row.words == "disagrees: output 1 differs by 5e-03 of its size"
    assert not row.times


def test_gradients_of_all_tapes_are_found_but_inner_ones():
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def penalty(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.sin(x) * v)
            g = inner.gradient(y, x)
            loss = tf.reduce_sum(g * g * v)
        return outer.gradient(loss, v)

    x = tf.constant([0.3, 0.5])
    recorded, _ = captured(penalty, x)

    (gradient,) = recorded.gradients
    assert [value.number for value in gradient.sources] == [
        value.number for value in recorded.gradient.variables.values()
    ]


def test_a_gradient_of_an_intermediate_value_belongs_to_the_step_alone():
    @tf.function
    def inside(x):
        y = x * x
        with tf.GradientTape() as tape:
            tape.watch(y)
            z = tf.sin(y)
        return tape.gradient(z, y)

    recorded, _ = captured(inside, tf.constant(2.0))

    assert recorded.gradient is None
    assert recorded.gradients == ()


def test_a_gradient_of_examples_belongs_to_the_step_alone():
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def per_example(x):
        def gradient(row):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(row * v))
            return tape.gradient(loss, v)

        return tf.vectorized_map(gradient, x)

    recorded, _ = captured(per_example, tf.constant([[0.3, 0.5], [0.1, 0.2]]))

    assert recorded.gradient is None
    assert recorded.step.calls


def test_wide_parts_compute_in_double_precision():
    function = tf.function(lambda x: tf.cast(x, "float16") + tf.random.normal([3], dtype="float16"))
    _, part = captured(function, tf.constant([1.0, 2.0, 3.0]))

    wide = widened(part)

    dtypes = {value.dtype.name for call in wide.graph.calls for value in call.results}
    assert dtypes <= {"float64", "uint64"}
    draws = [call for call in wide.graph.calls if call.primitive.name == "random_normal"]
    assert [call.params["dtype"].name for call in draws] == ["float16"]
    assert is_widened(part)


def test_results_must_agree_in_number_shape_and_value():
    function = tf.function(lambda x: (x * 2.0, x + 1.0))
    _, part = captured(function, tf.constant([1.0, 2.0]))
    first, second = part.expected

    assert difference(part, [first, second], part.expected) == (0.0, "")
    assert difference(part, [first], part.expected)[0] == np.inf
    assert difference(part, [first, second[:1]], part.expected)[0] == np.inf
    assert difference(part, [first, second + np.nan], part.expected)[0] == np.inf
    assert not judge(part, [first, second * 1.01], None).holds
    assert not judge(part, [first, second * 1.01], [first, second]).holds
    assert judge(part, [first, second * 1.0001], None).holds


def test_graphs_travel_as_bytes():
    from tapegrad_bench.scripts.captured import Captured

    function = tf.function(lambda x: tf.nn.softmax(x))
    _, part = captured(function, tf.constant([1.0, 2.0]))
    x = np.array([1.0, 2.0], "float32")

    again = unpack(pack(Captured("softmax", ([x],), {"step": part})))

    assert str(again.parts["step"].graph) == str(part.graph)


def test_the_table_has_ratios_and_words():
    rows = [
        Row("f", "tapegrad", "", (0.002,), (0.002,), 0.5),
        Row("f", "jax.jit", "1e-07, tolerance 2e-03", (0.001,), (0.002,), 2.0),
        Row("f", "torch.compile", "torch is not installed", (), (0.002,)),
    ]

    text = table(rows)

    assert "0.50" in text
    assert "torch is not installed" in text
    assert "500 ms" in text


INSTALLED = [
    name
    for name, packages in {
        "numpy": ["numpy"],
        "jax": ["jax"],
        "torch": ["torch", "array_api_compat"],
    }.items()
    if all(map(importlib.util.find_spec, packages))
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("library", INSTALLED)
def test_peers_compute_steps_and_their_own_gradients(script, library):
    session, peer = ScriptSession("cpu"), PeerSession("cpu")
    session.run(script(TRAINING), ["2"])
    peer.load(library)
    peer.take(session.packed(0))

    for part in ("step",) if library == "numpy" else ("step", "gradient"):
        agreement, _ = peer.check(part)
        assert agreement.holds, agreement.words
        assert len(peer.time(part, 0.0)) >= 5


LOOPS = """
import numpy as np
import tapegrad as tf

rng = np.random.default_rng(0)
w = tf.Variable(rng.normal(size=(3, 3)).astype("float32"))


@tf.function
def rounds(x):
    with tf.GradientTape() as tape:
        states = tf.scan(lambda h, y: tf.tanh(h @ w + y), x, x[0])
        loss = tf.reduce_mean(states**2)
    return loss, tape.gradient(loss, w)


@tf.function
def until(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y * y) < 500.0, lambda y: [1.5 * y @ w], [x])[0]


for _ in range(2):
    rounds(tf.constant(rng.normal(size=(400, 2, 3)).astype("float32")))
    until(tf.constant(rng.normal(size=(2, 3)).astype("float32")))
"""


def test_recorded_loops_agree(script, in_process):
    rows = rows_of(script(LOOPS))

    for program in ("rounds", "until"):
        assert rows[program, "numpy"].times, rows[program, "numpy"].words
