"""Steps that carry something along, mix datasets, and write them: values, states and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset, Options, experimental


def values(dataset):
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in dataset]


# Values


def test_take_while_ends_at_the_first_refusal():
    assert values(Dataset.from_tensor_slices([1, 2, 9, 1]).take_while(lambda n: n < 5)) == [1, 2]
    assert values(Dataset.range(0).take_while(lambda n: n < 5)) == []
    assert int(Dataset.range(3).take_while(lambda n: True).cardinality()) == -2


def test_scan_carries_any_structure():
    def step(state, x):
        total, seen = state["total"] + x, state["seen"] + 1
        return {"total": total, "seen": seen}, (total / tf.cast(seen, tf.float32), seen)

    means = Dataset.from_tensor_slices([2.0, 4.0, 9.0]).scan({"total": 0.0, "seen": 0}, step)

    assert values(means) == [(2.0, 1), (3.0, 2), (5.0, 3)]
    assert values(means) == [(2.0, 1), (3.0, 2), (5.0, 3)]  # each pass begins anew
    assert len(means) == 3
    assert [spec.dtype for spec in means.element_spec] == [tf.float32, tf.int32]


def test_unique_compares_whole_elements():
    pairs = Dataset.from_tensor_slices(([1, 1, 2, 1], [[0, 0], [0, 1], [0, 0], [0, 0]])).unique()

    assert values(pairs) == [(1, [0, 0]), (1, [0, 1]), (2, [0, 0])]


@pytest.mark.parametrize(("drops", "expected"), [(False, [[0, 1, 2], [3, 4]]), (True, [[0, 1, 2]])])
def test_rebatch_changes_the_size(drops, expected):
    assert values(Dataset.range(5).batch(2).rebatch(3, drop_remainder=drops)) == expected


def test_counter_and_single_elements():
    assert values(Dataset.counter(3, -2).take(3)) == [3, 1, -1]
    assert values(Dataset.counter(dtype="int32").take(2)) == [0, 1]
    assert len(Dataset.counter(2**62).take(10)) == 10
    assert int(Dataset.counter().cardinality()) == -1
    with pytest.raises(ValueError, match="nonzero step"):
        Dataset.counter(0, 0)
    for dataset, count in ((Dataset.range(0), "none"), (Dataset.range(2), "more")):
        with pytest.raises(ValueError, match=f"one element. Got {count}"):
            dataset.get_single_element()


def test_iterators_have_get_next():
    iterator = iter(Dataset.range(1))

    assert int(iterator.get_next()) == 0
    for _ in range(2):
        with pytest.raises(tf.errors.OutOfRangeError, match="end of sequence"):
            iterator.get_next()


# Several datasets


def test_choices_name_the_datasets():
    small, large = Dataset.range(2), Dataset.range(10, 20)
    choice = Dataset.from_tensor_slices([1, 0, 1, 0, 0, 1, 1])

    assert values(Dataset.choose_from_datasets([small, large], choice)) == [10, 0, 11, 1]
    going_on = Dataset.choose_from_datasets([small, large], choice, stop_on_empty_dataset=False)
    assert values(going_on) == [10, 0, 11, 1, 12, 13]
    assert values(experimental.choose_from_datasets([small, large], choice)) == values(going_on)


def test_samples_follow_the_weights_and_the_seed():
    parts = [Dataset.from_tensors(k).repeat() for k in range(3)]
    mixed = Dataset.sample_from_datasets(parts, [0.2, 0.0, 0.8], seed=3)
    drawn = values(mixed.take(3000))

    assert abs(drawn.count(0) / 3000 - 0.2) < 0.03
    assert drawn.count(1) == 0
    assert values(mixed.take(3000)) == drawn
    assert (
        values(Dataset.sample_from_datasets(parts, [0.2, 0.0, 0.8], seed=3).take(99)) == drawn[:99]
    )
    assert values(Dataset.sample_from_datasets(parts, seed=4).take(99)) != drawn[:99]
    assert int(mixed.cardinality()) == -1


def test_samples_end_with_the_last_or_the_first_dataset():
    parts = [Dataset.range(3), Dataset.range(10, 200)]

    assert sorted(values(Dataset.sample_from_datasets(parts, seed=1))) == [0, 1, 2, *range(10, 200)]
    stopped = values(Dataset.sample_from_datasets(parts, seed=1, stop_on_empty_dataset=True))
    assert [n for n in stopped if n < 10] == [0, 1, 2]
    assert len(stopped) < 193


# States

RESUMED = {
    "take_while": lambda: Dataset.range(20).take_while(lambda n: n < 12),
    "scan": lambda: Dataset.range(9).scan(0, lambda s, n: (s + n, s + n)),
    "scan of a shuffle": lambda: (
        Dataset.range(9).shuffle(9, seed=1).scan(0, lambda s, n: (s + n, s))
    ),
    "unique": lambda: Dataset.from_tensor_slices([1, 2, 1, 3, 2, 4, 5, 6]).unique(),
    "rebatch": lambda: Dataset.range(20).batch(4).rebatch(3),
    "counter": lambda: Dataset.counter(2, 3).take(8),
    "choose": lambda: Dataset.choose_from_datasets(
        [Dataset.range(5), Dataset.range(10, 15)], Dataset.range(2).repeat(5)
    ),
    "sample": lambda: Dataset.sample_from_datasets(
        [Dataset.range(4), Dataset.range(10, 14)], seed=5
    ),
    "asserted": lambda: Dataset.range(6).apply(experimental.assert_cardinality(6)),
}


@pytest.mark.parametrize("made", RESUMED.values(), ids=RESUMED)
def test_a_pass_resumes_at_every_position(made):
    iterator = made().iterator()
    states, expected = [iterator.state()], []
    for element in iterator:
        expected.append(element.numpy().tolist())
        states.append(iterator.state())

    assert len(expected) >= 6
    for position, state in enumerate(states):
        again = made().iterator(json.loads(json.dumps(state)))
        assert [x.numpy().tolist() for x in again] == expected[position:]


# Files


def test_a_saved_dataset_is_loaded_with_its_spec(tmp_path):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    dataset = Dataset.from_tensor_slices({"x": rows, "y": [1, 2, 3, 4, 5]}).batch(2)

    dataset.save(tmp_path / "new" / "folder")
    loaded = Dataset.load(tmp_path / "new" / "folder")

    assert values(loaded) == values(dataset)
    assert len(loaded) == 3
    assert repr(loaded.element_spec) == repr(dataset.element_spec)
    dataset.take(1).save(tmp_path / "new" / "folder")
    assert len(Dataset.load(tmp_path / "new" / "folder")) == 1
    assert len(values(loaded)) == 3  # the file that was opened before


def test_an_empty_dataset_is_saved(tmp_path):
    Dataset.range(0).save(tmp_path)

    assert values(Dataset.load(tmp_path)) == []


def test_damaged_and_missing_folders_are_named(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        Dataset.load(tmp_path / "nowhere")
    Dataset.range(3).save(tmp_path)
    for content, words in (
        (b"{", "spec"),
        (b'{"shapes": [[-1]]}', "no list of shapes"),
        (b'{"shapes": 3}', "no list of shapes"),
        (b'{"shapes": []}', "does not fit"),
    ):
        (tmp_path / "spec.json").write_bytes(content)
        with pytest.raises(tf.errors.DataLossError, match=words):
            Dataset.load(tmp_path).element_spec  # noqa: B018
    (tmp_path / "elements.npz").write_bytes(b"no archive")
    with pytest.raises(tf.errors.DataLossError, match=r"elements\.npz"):
        Dataset.load(tmp_path)


def test_a_failed_save_leaves_the_old_one(tmp_path):
    def failing():
        yield 1
        raise KeyError("broken")

    Dataset.range(3).save(tmp_path)
    with pytest.raises(KeyError):
        Dataset.from_generator(failing).save(tmp_path)

    assert values(Dataset.load(tmp_path)) == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elements.npz", "spec.json"]


# Options and older names


def test_options_are_kept_by_later_steps_and_merged():
    first, second = Options(), Options()
    first.deterministic = True
    first.threading.private_threadpool_size = 4
    second.deterministic = False
    second.experimental_distribute.auto_shard_policy = experimental.AutoShardPolicy.DATA

    dataset = (
        Dataset.range(4).with_options(first).map(lambda n: n + 1).with_options(second).batch(2)
    )

    found = dataset.options()
    assert found.deterministic is False
    assert found.threading.private_threadpool_size == 4
    assert found.experimental_distribute.auto_shard_policy == experimental.AutoShardPolicy.DATA
    assert values(dataset) == [[1, 2], [3, 4]]
    assert Dataset.range(4).options() == Options() != found


def test_unknown_options_are_refused():
    with pytest.raises(AttributeError, match=r"has no setting 'detreministic'. It has: .*determ"):
        Options().detreministic = True
    with pytest.raises(AttributeError, match="threading has no setting"):
        Options().threading.threads = 3
    with pytest.raises(TypeError, match=r"Options\. Got dict"):
        Dataset.range(3).with_options({})


def test_older_names_apply_the_steps():
    dataset = Dataset.range(4)

    assert int(experimental.cardinality(dataset)) == 4
    assert values(dataset.apply(experimental.take_while(lambda n: n < 2))) == [0, 1]
    assert values(dataset.batch(3).apply(experimental.unbatch())) == [0, 1, 2, 3]
    assert values(dataset.apply(experimental.enumerate_dataset(5)))[0] == (5, 0)
    assert values(experimental.Counter().take(2)) == [0, 1]


@pytest.mark.parametrize(("promised", "words"), [(5, "ended after 4"), (3, "has at least 4")])
def test_a_promised_length_is_checked(promised, words):
    dataset = Dataset.range(4).apply(experimental.assert_cardinality(promised))
    assert len(dataset) == promised

    with pytest.raises(ValueError, match=f"promised {promised} elements, .* {words}"):
        list(dataset)


# Wrong use

BAD = {
    "predicate": (lambda: list(Dataset.range(2).take_while(lambda n: [n, n])), "one boolean"),
    "scan": (lambda: list(Dataset.range(2).scan(0, lambda s, n: s)), "returns a tuple"),
    "no datasets": (lambda: Dataset.sample_from_datasets([]), "at least one dataset"),
    "no dataset": (lambda: Dataset.sample_from_datasets([[1, 2]]), "needs datasets. Got list"),
    "weights": (lambda: Dataset.sample_from_datasets([Dataset.range(2)], [1, 2]), "one weight per"),
    "negative": (lambda: Dataset.sample_from_datasets([Dataset.range(2)], [-1]), "at least 0"),
    "choice": (
        lambda: list(Dataset.choose_from_datasets([Dataset.range(2)], Dataset.range(1, 3))),
        "1 datasets, and the choice 1",
    ),
    "kind of choice": (
        lambda: list(
            Dataset.choose_from_datasets([Dataset.range(2)], Dataset.from_tensor_slices([0.5]))
        ),
        "single integers",
    ),
    "compression": (
        lambda: Dataset.range(2).save("x", "GZIP"),
        "save does not support compression",
    ),
}


@pytest.mark.parametrize(("act", "words"), BAD.values(), ids=BAD)
def test_wrong_use_is_explained(act, words):
    with pytest.raises((ValueError, TypeError), match=words):
        act()


# Dtypes and shapes of generators


def test_a_generator_takes_dtypes_and_shapes_in_tensorflows_order():
    def pairs():
        yield [1, 2], 3
        yield [4], 5

    dataset = Dataset.from_generator(pairs, (tf.float32, tf.int64), ([None], []))

    assert values(dataset) == [([1.0, 2.0], 3), ([4.0], 5)]
    assert [spec.shape for spec in dataset.element_spec] == [(None,), ()]
    named = Dataset.from_generator(lambda: iter([{"a": 1}]), output_types={"a": tf.float64})
    assert values(named) == [{"a": 1.0}]
    assert named.element_spec["a"].shape is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output_shapes": [2]}, "output_shapes without output_types"),
        ({"output_types": "int32", "output_signature": tf.TensorSpec(())}, "not both"),
        ({"output_types": ("int32", "int32"), "output_shapes": ([],)}, "must have 2 entries"),
        ({"output_types": {"a": "int32"}, "output_shapes": {"b": []}}, r"keys \['a'\]"),
    ],
)
def test_dtypes_and_shapes_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Dataset.from_generator(list, **options)
