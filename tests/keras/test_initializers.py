"""Initializers: moments and bounds of large draws, orthogonality, seeds, names and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import initializers

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

CLASSES = {
    name: getattr(initializers, name)
    for name in initializers.__all__
    if name[0].isupper()
    and name not in ("Initializer", "RandomInitializer")
    and not name.startswith("STFT")  # is for kernels of three axes; see test_spectrograms.py
}
RANDOM = {
    name: cls for name, cls in CLASSES.items() if issubclass(cls, initializers.RandomInitializer)
}
every_class = pytest.mark.parametrize("name", CLASSES)
every_random_class = pytest.mark.parametrize("name", RANDOM)

DENSE = (300, 500)  # fans 300 and 500
FILTER = (3, 5, 40, 200)  # fans 15 * 40 = 600 and 15 * 200 = 3000


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def assert_drawn_from(sample, distribution):
    """The Kolmogorov-Smirnov distance of n draws is below 1.95 / sqrt(n) all but once in 1000."""
    values = np.sort(sample.numpy().astype(float).ravel())
    places = np.arange(values.size + 1) / values.size
    expected = distribution.cdf(values)
    distance = max(np.max(places[1:] - expected), np.max(expected - places[:-1]))
    assert distance < 1.95 / math.sqrt(values.size)


def normal(variance):
    return stats.norm(0, math.sqrt(variance))


def truncated_normal(variance):
    """The normal distribution cut off at two of its deviations that has this variance."""
    deviation = math.sqrt(variance) / stats.truncnorm(-2, 2).std()
    return stats.truncnorm(-2, 2, scale=deviation)


def uniform(variance):
    limit = math.sqrt(3 * variance)
    return stats.uniform(-limit, 2 * limit)


def test_zeros_are_zero_and_ones_are_one():
    assert not initializers.Zeros()((2, 3)).numpy().any()
    assert (initializers.Ones()((2, 3)).numpy() == 1).all()


def test_a_constant_is_exact_in_the_dtype_that_is_asked_for():
    assert initializers.Constant(0.1)((1,), "float64").numpy().tolist() == [0.1]
    assert initializers.Constant([0.1, 0.7])((2,), "float64").numpy().tolist() == [0.1, 0.7]


@pytest.mark.parametrize(
    "value",
    [[1, 2, 3], np.array([1.0, 2.0, 3.0]), tf.constant([1, 2, 3]), tf.Variable([1.0, 2.0, 3.0])],
    ids=["list", "array", "tensor", "variable"],
)
def test_a_constant_array_broadcasts(value):
    y = initializers.Constant(value)((2, 3))

    assert y.numpy().tolist() == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    assert y.dtype == "float32"


@pytest.mark.parametrize("shape", [(2,), (3, 2), ()])
def test_a_constant_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"A value of shape \(3,\) does not broadcast to"):
        initializers.Constant([1, 2, 3])(shape)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_the_identity_has_its_gain_on_the_diagonal(shape):
    y = initializers.Identity(gain=0.5)(shape, "float64")

    np.testing.assert_array_equal(y.numpy(), 0.5 * np.eye(*shape))


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), ()])
def test_the_identity_is_defined_for_matrices_only(shape):
    with pytest.raises(ValueError, match="Identity takes a shape with two sizes"):
        initializers.Identity()(shape)


@every_class
def test_the_dtype_is_float32_unless_another_is_asked_for(name):
    initializer = CLASSES[name]()

    assert initializer((4, 3)).dtype == "float32"
    assert initializer((4, 3), dtype="float64").dtype == "float64"
    assert initializer((4, 3), dtype="float16").dtype == "float16"


@every_class
@pytest.mark.parametrize("shape", [(4, 3), [4, 3], tf.constant([4, 3])], ids=type)
def test_a_shape_may_be_a_tuple_a_list_or_a_tensor(name, shape):
    assert CLASSES[name]()(shape).shape == (4, 3)


@pytest.mark.parametrize(
    ("initializer", "distribution"),
    [
        (initializers.RandomNormal(seed=1), stats.norm(0, 0.05)),
        (initializers.RandomNormal(3.0, 2.0, seed=1), stats.norm(3, 2)),
        (initializers.TruncatedNormal(seed=1), stats.truncnorm(-2, 2, scale=0.05)),
        (initializers.TruncatedNormal(3.0, 2.0, seed=1), stats.truncnorm(-2, 2, 3, 2)),
        (initializers.RandomUniform(seed=1), stats.uniform(-0.05, 0.1)),
        (initializers.RandomUniform(2.0, 5.0, seed=1), stats.uniform(2, 3)),
    ],
)
def test_draws_have_the_distribution_that_was_asked_for(initializer, distribution):
    assert_drawn_from(initializer(DENSE), distribution)


def test_uniform_integers_reach_both_ends():
    y = initializers.RandomUniform(-2, 3, seed=1)((1000,), dtype="int32")

    assert sorted(set(y.numpy().tolist())) == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize(("shape", "fan_in", "fan_out"), [(DENSE, 300, 500), (FILTER, 600, 3000)])
@pytest.mark.parametrize(
    ("name", "variance", "distribution"),
    [
        ("GlorotNormal", lambda fan_in, fan_out: 2 / (fan_in + fan_out), truncated_normal),
        ("GlorotUniform", lambda fan_in, fan_out: 2 / (fan_in + fan_out), uniform),
        ("HeNormal", lambda fan_in, fan_out: 2 / fan_in, truncated_normal),
        ("HeUniform", lambda fan_in, fan_out: 2 / fan_in, uniform),
        ("LecunNormal", lambda fan_in, fan_out: 1 / fan_in, truncated_normal),
        ("LecunUniform", lambda fan_in, fan_out: 1 / fan_in, uniform),
    ],
)
def test_named_schemes_have_their_variance(name, variance, distribution, shape, fan_in, fan_out):
    wanted = variance(fan_in, fan_out)

    y = CLASSES[name](seed=3)(shape)

    assert_drawn_from(y, distribution(wanted))
    # The variance of n draws spreads by less than sqrt(2 / n) of itself: five times that.
    assert abs(y.numpy().astype(float).var() / wanted - 1) < 5 * math.sqrt(2 / y.size)


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("truncated_normal", truncated_normal),
        ("normal", truncated_normal),
        ("untruncated_normal", normal),
        ("uniform", uniform),
    ],
)
@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 300), ("fan_out", 500), ("fan_avg", 400)])
def test_variance_scaling_takes_every_mode_and_distribution(name, distribution, mode, fan):
    y = initializers.VarianceScaling(3.0, mode, name, seed=5)(DENSE)

    assert_drawn_from(y, distribution(3 / fan))


def test_axes_of_inputs_and_outputs_can_be_named():
    # The layout of attention: [inputs, heads, size].
    fans = {"input_axes": [0], "output_axes": [1, -1]}

    y = initializers.VarianceScaling(1.0, "fan_out", "uniform", 5, **fans)((50, 40, 100))

    assert_drawn_from(y, uniform(1 / 4000))


@pytest.mark.parametrize(("shape", "fan"), [((), 1), ((400,), 400)])
def test_vectors_and_numbers_have_fans(shape, fan):
    y = initializers.LecunUniform(seed=2)(shape)

    assert np.abs(y.numpy()).max() <= math.sqrt(3 / fan)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": -1.0}, r"scale of VarianceScaling must be above 0\. Got -1\.0"),
        ({"scale": 0}, r"scale of VarianceScaling must be above 0\. Got 0"),
        ({"mode": "fan"}, r"mode must be one of fan_in, fan_out, fan_avg\. Got 'fan'"),
        ({"distribution": "cauchy"}, r"distribution must be one of .*uniform\. Got 'cauchy'"),
        ({"input_axes": [0]}, r"or neither\. Got input_axes=\[0\], output_axes=None"),
    ],
)
def test_bad_arguments_of_variance_scaling_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        initializers.VarianceScaling(**arguments)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (2, 3, 4), (2, 2, 20)])
def test_orthogonal_matrices_have_orthonormal_columns_or_rows(shape):
    y = initializers.Orthogonal(gain=2.0, seed=1)(shape, "float64").numpy()

    matrix = y.reshape(-1, shape[-1]) / 2
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-13)


def test_all_orthogonal_matrices_are_equally_likely():
    # Of a matrix that is uniform over all rotations and reflections of the plane, the angle of the
    # first column is uniform, and reflections are as likely as rotations.
    tf.random.set_seed(0)
    draw = tf.function(lambda: initializers.Orthogonal()((2, 2), "float64"))
    found = np.array([draw().numpy() for _ in range(2000)])

    angles = tf.constant(np.arctan2(found[:, 1, 0], found[:, 0, 0]))
    assert_drawn_from(angles, stats.uniform(-np.pi, 2 * np.pi))
    assert abs((np.linalg.det(found) > 0).mean() - 0.5) < 0.05


def test_orthogonal_needs_two_sizes():
    with pytest.raises(ValueError, match=r"at least two sizes\. Got \(3,\)"):
        initializers.Orthogonal()((3,))


@every_random_class
def test_with_a_seed_every_call_gives_the_same_numbers(name):
    initializer = RANDOM[name](seed=7)

    first = initializer((4, 3)).numpy()
    tf.random.set_seed(99)
    again = initializer((4, 3)).numpy()

    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, RANDOM[name](seed=7)((4, 3)).numpy())


@every_random_class
def test_other_seeds_give_other_numbers(name):
    first, other = RANDOM[name](seed=7)((4, 3)), RANDOM[name](seed=8)((4, 3))

    assert (first.numpy() != other.numpy()).all()


@every_random_class
def test_without_a_seed_calls_differ_and_follow_set_seed(name):
    initializer = RANDOM[name]()

    tf.random.set_seed(5)
    first, second = initializer((4, 3)).numpy(), initializer((4, 3)).numpy()
    tf.random.set_seed(5)
    again = initializer((4, 3)).numpy()

    assert (first != second).all()
    np.testing.assert_array_equal(first, again)


def test_a_seed_is_unrelated_to_the_same_global_seed():
    tf.random.set_seed(7)
    noise = tf.random.normal((1000,)).numpy()

    weights = initializers.RandomNormal(stddev=1.0, seed=7)((1000,)).numpy()

    assert abs(np.corrcoef(noise, weights)[0, 1]) < 0.15


@pytest.mark.parametrize("seed", [np.int64(7), -3, 1 << 70])
def test_any_integer_is_a_seed(seed):
    assert initializers.HeNormal(seed=seed)((2, 2)).shape == (2, 2)


@pytest.mark.parametrize("seed", [1.5, "7"])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="The seed of an initializer must be an integer or None"):
        initializers.HeNormal(seed=seed)


@pytest.mark.parametrize("name", ["RandomNormal", "TruncatedNormal", "HeNormal", "Orthogonal"])
def test_normal_draws_are_not_integers(name):
    with pytest.raises(TypeError, match=r"draws floating-point numbers\. Got dtype int32"):
        RANDOM[name]()((2, 2), dtype="int32")


@every_class
def test_a_recorded_function_gives_the_same_as_an_eager_call(name):
    initializer = CLASSES[name](seed=7) if name in RANDOM else CLASSES[name]()
    recorded = tf.function(lambda: initializer((4, 3)))

    first, again = recorded(), recorded()

    np.testing.assert_allclose(first.numpy(), initializer((4, 3)).numpy(), rtol=1e-6)
    np.testing.assert_array_equal(first.numpy(), again.numpy())


@every_class
def test_tensors_are_made_on_the_current_device_without_reading_from_it(name, strict_device):
    initializer = CLASSES[name](seed=7) if name in RANDOM else CLASSES[name]()
    with tf.device(strict_device), strict.forbidding_reads():
        y = initializer((4, 3))

    assert y.device == strict_device
    np.testing.assert_allclose(y.numpy(), initializer((4, 3)).numpy(), rtol=1e-5, atol=1e-7)


@every_class
def test_a_name_a_class_and_a_configuration_stand_for_the_initializer(name):
    initializer = CLASSES[name]()
    config = initializers.serialize(initializer)

    for identifier in (name, name.lower(), CLASSES[name], config, initializer):
        found = initializers.get(identifier)

        assert type(found) is CLASSES[name]
        assert found.get_config() == initializer.get_config()
    assert initializers.deserialize(config).get_config() == initializer.get_config()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("glorot_uniform", "GlorotUniform"),
        ("he_normal", "HeNormal"),
        ("zeros", "Zeros"),
        ("zero", "Zeros"),
        ("one", "Ones"),
        ("normal", "RandomNormal"),
        ("uniform", "RandomUniform"),
        ("IdentityInitializer", "Identity"),
        ("OrthogonalInitializer", "Orthogonal"),
    ],
)
def test_aliases_are_known(name, wanted):
    assert type(initializers.get(name)) is CLASSES[wanted]


def test_every_lower_case_name_is_that_of_a_class():
    aliases = set(filter(str.islower, initializers.__all__)) - {
        "get",
        "serialize",
        "deserialize",
        "stft",
    }

    found = {name: getattr(initializers, name) for name in aliases}

    assert set(found.values()) == set(CLASSES.values())
    assert found == {name: type(initializers.get(name)) for name in aliases}


def test_none_stands_for_no_initializer():
    assert initializers.get(None) is None


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(ValueError, match=r"no initializer 'he_norml'\. Did you mean 'he_normal'"):
        initializers.get("he_norml")


def test_a_clone_has_the_same_configuration():
    initializer = initializers.VarianceScaling(2.0, "fan_out", "uniform", seed=3)

    clone = initializer.clone()

    assert clone is not initializer
    assert clone.get_config() == initializer.get_config()
    np.testing.assert_array_equal(clone((3, 4)).numpy(), initializer((3, 4)).numpy())


class Sevens(initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return tf.fill(shape, 7.0)


def test_an_initializer_of_the_user_comes_back_from_its_configuration():
    config = initializers.serialize(Sevens())

    again = initializers.deserialize(config, custom_objects={"Sevens": Sevens})

    assert config == {"class_name": "Sevens", "config": {}}
    assert isinstance(again, Sevens)


@pytest.mark.parametrize("cls", [initializers.Zeros, initializers.Ones, Sevens])
def test_an_initializer_without_arguments_takes_none(cls):
    with pytest.raises(TypeError, match="positional argument"):
        cls(5)


def test_an_initializer_must_say_what_it_returns():
    class Nothing(initializers.Initializer):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
