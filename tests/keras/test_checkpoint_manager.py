"""CheckpointManager: numbering, the latest checkpoint, deletion, killed processes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.train import Checkpoint, CheckpointManager, latest_checkpoint


@pytest.fixture
def prefix(tmp_path):
    return f"{tmp_path}/ckpt"


# Numbers and folders


def test_saves_are_numbered_and_the_numbers_go_on_after_restoring(prefix, tmp_path):
    checkpoint = Checkpoint(w=tf.Variable(1.0))
    paths = [checkpoint.save(prefix), checkpoint.save(prefix)]
    again = Checkpoint(w=tf.Variable(0.0))

    again.restore(latest_checkpoint(tmp_path)).assert_consumed()

    assert paths == [f"{prefix}-1", f"{prefix}-2"]
    assert again.save(prefix) == f"{prefix}-3"
    assert latest_checkpoint(tmp_path) == f"{prefix}-3"
    assert int(again.save_counter) == 3


def test_a_failed_save_does_not_count(prefix, monkeypatch):
    checkpoint = Checkpoint(w=tf.Variable(1.0))
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            checkpoint.save(prefix)

    assert checkpoint.save(prefix) == f"{prefix}-1"


def test_restore_takes_the_file_name_too(prefix):
    checkpoint = Checkpoint(n=1)
    path = checkpoint.write(f"{prefix}.safetensors")
    checkpoint.n = 2

    checkpoint.read(path).assert_consumed()

    assert checkpoint.n == 1
    assert path == f"{prefix}.safetensors"


def test_the_latest_is_the_one_saved_last_even_if_its_number_is_lower(tmp_path):
    checkpoint = Checkpoint(w=tf.Variable(1.0))
    manager = CheckpointManager(checkpoint, tmp_path)
    paths = [manager.save() for _ in range(3)]

    checkpoint.restore(paths[0])
    again = manager.save()

    assert again == paths[1]
    assert manager.latest_checkpoint == paths[1]
    assert manager.checkpoints == [paths[0], paths[2], paths[1]]


def test_without_its_list_a_folder_is_searched_by_number(tmp_path):
    manager = CheckpointManager(Checkpoint(), tmp_path, max_to_keep=None)
    paths = [manager.save() for _ in range(11)]
    (tmp_path / "checkpoint").unlink()

    assert latest_checkpoint(tmp_path) == paths[-1]
    assert manager.checkpoints == paths


@pytest.mark.parametrize(
    "text",
    ['model_checkpoint_path: "ckpt-1"', '{"checkpoints": [1]}', "[" * 200_000],
    ids=["TensorFlow", "numbers", "deep"],
)
def test_a_damaged_list_gets_a_sentence(text, tmp_path):
    CheckpointManager(Checkpoint(), tmp_path).save()
    (tmp_path / "checkpoint").write_text(text)

    with pytest.raises(ArgumentError, match="the checkpoints are then found by their numbers"):
        latest_checkpoint(tmp_path)


def test_a_list_that_names_files_of_other_folders_deletes_none_of_them(tmp_path):
    other = Checkpoint().write(tmp_path / "precious")
    manager = CheckpointManager(Checkpoint(), tmp_path / "run", max_to_keep=1)
    manager.save()
    (tmp_path / "run" / "checkpoint").write_text('{"checkpoints": ["../precious"]}')

    with pytest.raises(ArgumentError, match="is not a list of checkpoints"):
        manager.save()

    assert os.path.exists(f"{other}.safetensors")


# The manager


def test_a_manager_keeps_the_newest(tmp_path):
    manager = CheckpointManager(Checkpoint(), tmp_path, max_to_keep=2, checkpoint_name="run")

    for _ in range(4):
        manager.save()

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint", "run-3.safetensors", "run-4.safetensors"]
    assert manager.checkpoints == [f"{tmp_path}/run-3", f"{tmp_path}/run-4"]


def test_a_new_manager_goes_on_with_the_checkpoints_of_the_last_one(tmp_path):
    first = CheckpointManager(Checkpoint(n=4), tmp_path, max_to_keep=2)
    first.save(checkpoint_number=10)
    first.save(checkpoint_number=20)

    second = CheckpointManager(Checkpoint(n=0), tmp_path, max_to_keep=2)
    restored = second.restore_or_initialize()
    second.save(checkpoint_number=30)

    assert restored == f"{tmp_path}/ckpt-20"
    assert second.checkpoint.n == 4
    assert second.checkpoints == [f"{tmp_path}/ckpt-20", f"{tmp_path}/ckpt-30"]


def test_without_a_checkpoint_the_manager_initializes(tmp_path):
    w = tf.Variable(0.0)
    manager = CheckpointManager(Checkpoint(w=w), tmp_path, init_fn=lambda: w.assign(5.0))

    assert manager.restore_or_initialize() is None
    assert float(w) == 5.0
    assert manager.latest_checkpoint is None


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_when_saving_fails_no_old_checkpoint_is_gone(call, tmp_path, monkeypatch):
    manager = CheckpointManager(Checkpoint(), tmp_path, max_to_keep=1)
    path = manager.save()
    before = sorted(tmp_path.iterdir())

    monkeypatch.setattr(os, call, lambda *rest: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        manager.save()

    assert sorted(tmp_path.iterdir()) == before
    assert manager.latest_checkpoint == path


def test_a_manager_keeps_at_least_one(tmp_path):
    with pytest.raises(ArgumentError, match="max_to_keep must be positive or None"):
        CheckpointManager(Checkpoint(), tmp_path, max_to_keep=0)


# Killed at any moment

FATAL = """
import os, signal
calls = 0

def fatal(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == fatal_call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

for name in ("fsync", "mkdir", "open", "replace", "unlink"):
    setattr(os, name, fatal(getattr(os, name)))
"""

SAVER = """
import sys
import numpy as np
import tapegrad as tf
from tapegrad.train import Checkpoint, CheckpointManager

folder, size, fatal_call = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
w, optimizer = tf.Variable(np.zeros(size, "float32")), tf.optimizers.Adam(0.5)
checkpoint = Checkpoint(w=w, optimizer=optimizer, step=0)
manager = CheckpointManager(checkpoint, folder, max_to_keep=1)
manager.restore_or_initialize()
while True:
    checkpoint.step += 1
    w.assign(np.full(size, checkpoint.step, "float32"))
    optimizer.iterations.assign(checkpoint.step)
    manager.save()
    print(checkpoint.step, flush=True)
"""

TRAINER = """
import sys
import numpy as np
import tapegrad as tf
from tapegrad.train import Checkpoint, CheckpointManager

folder, last_step, fatal_call = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
w = tf.Variable(np.linspace(-1, 1, 12).reshape(4, 3).astype("float32"))
optimizer = tf.optimizers.Adam(0.05)
tf.random.set_seed(7)
manager = CheckpointManager(Checkpoint(w=w, optimizer=optimizer), folder, max_to_keep=2)
manager.restore_or_initialize()
while int(optimizer.iterations) < last_step:
    x = tf.random.normal([8, 4])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - tf.random.uniform([8, 3])))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    manager.save()
print(w.numpy().tobytes().hex())
"""


FORKS = """
import os, sys
import numpy, tapegrad, tapegrad.train

tapegrad.optimizers.Adam(tapegrad.Variable(0.5))  # imports what the script needs
script = compile(sys.argv[1], "script", "exec")
for line in sys.stdin:
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        sys.argv = ["-c", *line.split()]
        exec(script, {})
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"ended {status}", flush=True)
"""


class Forks:
    """Runs a script in one process after the other; all are forks of one that has imported it."""

    def __init__(self, script):
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # CUDA cannot be used after a fork.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TAPEGRAD_DEVICE": "cpu",
            },
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def start(self, *arguments):
        """Start a process and return its number."""
        self._process.stdin.write(" ".join(map(str, arguments)) + "\n")
        self._process.stdin.flush()
        return int(self.line())

    def line(self):
        return self._process.stdout.readline()

    def rest(self):
        """Wait for the end of the process; return what it printed and its exit status."""
        lines = []
        while not (line := self.line()).startswith("ended"):
            lines.append(line)
        return lines, int(line.split()[1])


def restored_step(folder, size):
    """Restore the latest checkpoint, check that all of it is of one step, and return that."""
    w, optimizer = tf.Variable(np.zeros(size, "float32")), tf.optimizers.Adam(0.5)
    checkpoint = Checkpoint(w=w, optimizer=optimizer, step=0)
    checkpoint.restore(latest_checkpoint(folder)).assert_consumed()
    assert (w.numpy() == checkpoint.step).all()
    assert int(optimizer.iterations) == checkpoint.step
    return checkpoint.step


def test_a_process_killed_at_any_moment_leaves_a_complete_checkpoint(tmp_path):
    size, step = 500_000, 0

    with Forks(SAVER) as forks:
        for delay in (0.0, 0.001, 0.003, 0.007, 0.013, 0.02, 0.04, 0.08):
            process = forks.start(tmp_path, size, 0)
            first = forks.line()
            time.sleep(delay)
            os.kill(process, signal.SIGKILL)
            rest, status = forks.rest()
            said = int([first, *rest][-1])

            # What was reported as saved is there; one more may have been finished in silence.
            assert status == -signal.SIGKILL
            found = restored_step(tmp_path, size)
            assert found in (said, said + 1)
            assert found > step
            step = found


def test_a_process_killed_before_any_call_of_a_save_leaves_a_complete_checkpoint(tmp_path):
    left_behind = 0

    with Forks(SAVER.replace("while True:", FATAL + "while True:")) as forks:
        process = forks.start(tmp_path, 9, 0)
        forks.line()
        os.kill(process, signal.SIGKILL)
        forks.rest()
        step = restored_step(tmp_path, 9)

        for fatal_call in range(1, 14):
            forks.start(tmp_path, 9, fatal_call)
            said, status = forks.rest()

            assert status == -signal.SIGKILL
            found = restored_step(tmp_path, 9)
            assert found - step in (len(said), len(said) + 1)
            left_behind += any(path.suffix == ".tmp" for path in tmp_path.iterdir())
            step = found

    # Some died while they wrote, some before they deleted; the next save clears all that away.
    assert left_behind
    CheckpointManager(Checkpoint(), tmp_path, max_to_keep=1).save(checkpoint_number=99)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint", "ckpt-99.safetensors"]


def test_a_training_run_that_is_killed_and_started_again_ends_with_the_same_weights(tmp_path):
    kills = 0
    with Forks(TRAINER.replace("while int", FATAL + "while int")) as forks:
        forks.start(tmp_path / "whole", 10, 0)
        (expected,), _ = forks.rest()

        for fatal_call in (20, 27, 34, 0):
            forks.start(tmp_path / "pieces", 10, fatal_call)
            said, status = forks.rest()
            kills += status == -signal.SIGKILL
    (weights,) = said

    assert kills == 3
    assert weights == expected
    assert len(expected) == 12 * 8 + 1


def test_an_interval_counts_the_steps_since_the_last_checkpoint(tmp_path):
    steps = tf.Variable(0)
    manager = CheckpointManager(
        Checkpoint(steps=steps), tmp_path, step_counter=steps, checkpoint_interval=3
    )
    saved = []
    for step in range(8):
        steps.assign(step)
        saved.append(manager.save() is not None)

    assert saved == [True, False, False, True, False, False, True, False]
    assert manager.save(check_interval=False) is not None
    with pytest.raises(ArgumentError, match="checkpoint_interval needs a step_counter"):
        CheckpointManager(Checkpoint(), tmp_path, checkpoint_interval=3)
    with pytest.raises(ArgumentError, match="max_to_keep=None to keep all"):
        CheckpointManager(Checkpoint(), tmp_path, keep_checkpoint_every_n_hours=1.0)
