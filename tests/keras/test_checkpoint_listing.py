"""get_checkpoint_state, checkpoints_iterator and CheckpointOptions."""

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.train import Checkpoint, CheckpointManager, CheckpointOptions


@pytest.fixture
def checkpoint():
    return Checkpoint(w=tf.Variable(1.0))


def test_the_state_of_a_folder_lists_its_checkpoints(checkpoint, tmp_path):
    paths = [checkpoint.save(f"{tmp_path}/ckpt") for _ in range(2)]

    state = tf.train.get_checkpoint_state(str(tmp_path))

    assert state.all_model_checkpoint_paths == paths
    assert state.model_checkpoint_path == paths[-1] == tf.train.latest_checkpoint(tmp_path)
    assert len(state.all_model_checkpoint_timestamps) == 2
    assert tf.train.get_checkpoint_state(f"{tmp_path}/none") is None


def test_the_iterator_yields_new_checkpoints_until_the_timeout(checkpoint, tmp_path):
    first = checkpoint.save(f"{tmp_path}/ckpt")
    seen = []

    for path in tf.train.checkpoints_iterator(str(tmp_path), timeout=0.01):
        seen.append(path)
        if len(seen) == 1:
            checkpoint.save(f"{tmp_path}/ckpt")  # these two count as one
            last = checkpoint.save(f"{tmp_path}/ckpt")

    assert seen == [first, last]


def test_the_function_at_a_timeout_decides_whether_to_go_on(checkpoint, tmp_path):
    calls = []

    def is_over():
        calls.append(len(calls))
        if len(calls) == 2:
            checkpoint.save(f"{tmp_path}/ckpt")
        return len(calls) > 2

    found = list(tf.train.checkpoints_iterator(str(tmp_path), timeout=0.0, timeout_fn=is_over))

    assert found == [f"{tmp_path}/ckpt-1"]
    assert len(calls) == 3


def test_functions_of_the_options_are_called_after_each_write(checkpoint, tmp_path):
    calls = []
    options = CheckpointOptions(
        experimental_write_callbacks=[calls.append, lambda: calls.append("written")]
    )

    checkpoint.save(f"{tmp_path}/a", options)
    checkpoint.write(f"{tmp_path}/b", options=options)
    CheckpointManager(checkpoint, tmp_path).save(options=options)

    paths = [f"{tmp_path}/a-1", f"{tmp_path}/b", f"{tmp_path}/ckpt-2"]
    assert calls == [entry for path in paths for entry in (path, "written")]


def test_options_that_cannot_be_met_are_refused():
    with pytest.raises(ArgumentError, match="must be a list of functions"):
        CheckpointOptions(experimental_write_callbacks=[1])
    with pytest.raises(ArgumentError, match="without the optimizer"):
        CheckpointOptions(experimental_skip_slot_variables=True)
