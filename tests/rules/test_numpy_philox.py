from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tapegrad_numpy.kernels import philox_rejection, philox_words
from tapegrad_numpy.kernels.philox import KERNELS, random_bits

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
# A fair sample falls below this p-value once in a thousand seeds; the seeds here are fixed.
UNLIKELY = 1e-3


def state(seed: int = 42, offset: int = 7) -> np.ndarray:
    return np.array([seed, offset], np.uint64)


def draw(kind: str, *arrays: Any, seed: int = 42, offset: int = 7, **params: Any) -> np.ndarray:
    return KERNELS[kind](state(seed, offset), *arrays, **params)


def philox_by_the_paper(counter: list[int], key: list[int]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# One small draw of each kernel, as a function of how many numbers to draw.
DRAWS = {
    **{
        f"{kind} {dtype}": lambda n, kind=kind, dtype=dtype: draw(kind, shape=(n,), dtype=dtype)
        for kind in ("random_uniform", "random_normal", "random_truncated_normal")
        for dtype in FLOATS
    },
    "integers": lambda n: draw("random_integers", shape=(n,), dtype="int32", low=-5, high=9),
    "bernoulli": lambda n: draw("random_bernoulli", shape=(n,), rate=0.3),
    "gamma": lambda n: draw("random_gamma", np.array(0.7), shape=(n,), dtype="float32"),
    "poisson": lambda n: draw("random_poisson", np.array(25.0), shape=(n,), dtype="int32"),
    "categorical": lambda n: draw("random_categorical", np.arange(5.0), num_samples=n),
}
every_draw = pytest.mark.parametrize("sample", DRAWS.values(), ids=DRAWS.keys())


# The words


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_known_answers_of_random123(counter, key, words):
    low, high = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32

    bits = random_bits(key[0] | key[1] << 32, high, 4, start=low)

    assert " ".join(f"{word:08x}" for word in bits) == words


def test_word_e_is_lane_e_mod_4_of_counter_e_div_4():
    seed, offset, start = 0x0123456789ABCDEF, 0xFEDCBA9876543210, 2**32 - 2

    bits = random_bits(seed, offset, 19, start=start)

    halves = [seed & 0xFFFFFFFF, seed >> 32], [offset & 0xFFFFFFFF, offset >> 32]
    for e, word in enumerate(bits):
        counter = start + e // 4
        expected = philox_by_the_paper([counter & 0xFFFFFFFF, counter >> 32, *halves[1]], halves[0])
        assert word == expected[e % 4]


@pytest.mark.parametrize("block", [1, 3, 64, 1000])
def test_words_do_not_depend_on_the_block_size(block, monkeypatch):
    expected = random_bits(1, 2, 1234)

    monkeypatch.setattr(philox_words, "_BLOCK", block)

    np.testing.assert_array_equal(random_bits(1, 2, 1234), expected)


def test_counter_wraps_around():
    bits = random_bits(1, 2, 8, start=2**64 - 1)

    np.testing.assert_array_equal(bits[4:], random_bits(1, 2, 4))


def test_every_bit_is_set_half_of_the_time():
    bits = random_bits(3, 0, 1 << 16)

    ones = np.unpackbits(bits.view(np.uint8).reshape(-1, 4), axis=1).sum(axis=0, dtype=np.int64)

    assert np.all(np.abs(ones - 2**15) < 4.5 * 2**7)  # 4.5 standard deviations


def test_next_draw_and_next_seed_share_no_words():
    words = [random_bits(seed, offset, 10_000) for seed, offset in [(0, 0), (0, 1), (1, 0)]]

    equal = [np.sum(words[i] == words[j]) for i, j in [(0, 1), (0, 2), (1, 2)]]

    assert equal == [0, 0, 0]


# Every kernel


@every_draw
def test_first_numbers_are_the_same_for_any_count(sample):
    many = sample(1001)

    for n in (0, 1, 2, 3, 6, 257):
        np.testing.assert_array_equal(sample(n), many[:n])


@every_draw
def test_numbers_do_not_depend_on_block_and_chunk_size(sample, monkeypatch):
    expected = sample(501)

    monkeypatch.setattr(philox_words, "_BLOCK", 64)
    monkeypatch.setattr(philox_rejection, "_CHUNK", 10)

    np.testing.assert_array_equal(sample(501), expected)


@pytest.mark.parametrize("kind", ["random_uniform", "random_normal", "random_truncated_normal"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 5)])
def test_shape_and_dtype_are_as_asked(kind, dtype, shape):
    y = draw(kind, shape=shape, dtype=dtype)

    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == (shape, dtype)


def test_state_is_not_changed():
    given = state()

    KERNELS["random_uniform"](given, shape=(5,), dtype="float32")

    np.testing.assert_array_equal(given, state())


def test_largest_seed_and_offset_are_accepted():
    y = draw("random_uniform", seed=2**64 - 1, offset=2**64 - 1, shape=(4,), dtype="float32")

    words = random_bits(2**64 - 1, 2**64 - 1, 4)
    np.testing.assert_array_equal(y, (words >> 8) * 2.0**-24)


# Uniform


def fake_words(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    """Make the generator return this word for ever."""

    def philox(counters: np.ndarray, seed: int, offset: int) -> np.ndarray:
        return np.full((counters.size, 4), word, np.uint32)

    monkeypatch.setattr(philox_words, "philox", philox)
    monkeypatch.setattr(philox_words, "LEAST_COMPILED", 1 << 62)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("float16", 1 - 2**-11), ("float32", 1 - 2**-24), ("float64", 1 - 2**-53)],
)
def test_uniform_reaches_zero_and_never_one(dtype, largest, monkeypatch):
    fake_words(monkeypatch, 0)
    lowest = draw("random_uniform", shape=(4,), dtype=dtype)
    fake_words(monkeypatch, 0xFFFFFFFF)
    highest = draw("random_uniform", shape=(4,), dtype=dtype)

    np.testing.assert_array_equal(lowest, 0)
    np.testing.assert_array_equal(highest, largest)


def test_uniform_float16_is_the_float32_rounded_down():
    wide = draw("random_uniform", shape=(100_000,), dtype="float32")
    narrow = draw("random_uniform", shape=(100_000,), dtype="float16")

    assert np.all(narrow <= wide)
    assert np.all(np.nextafter(narrow, np.float16(2)) > wide)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_distribution(dtype):
    y = draw("random_uniform", shape=(200_000,), dtype=dtype).astype(float)

    assert y.mean() == pytest.approx(0.5, abs=3e-3)
    assert y.var() == pytest.approx(1 / 12, abs=1e-3)
    if dtype != "float16":
        assert stats.kstest(y, "uniform").pvalue > UNLIKELY


def test_uniform_float64_uses_the_lower_bits():
    y = draw("random_uniform", shape=(20_000,), dtype="float64")

    lower = y * 2**24 % 1

    assert stats.kstest(lower, "uniform").pvalue > UNLIKELY


# Normal


@pytest.mark.parametrize("kind", ["random_normal", "random_truncated_normal"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("word", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF])
def test_normal_is_finite_for_extreme_words(kind, dtype, word, monkeypatch):
    fake_words(monkeypatch, word)

    assert np.all(np.isfinite(draw(kind, shape=(4,), dtype=dtype)))


@pytest.mark.parametrize(
    ("dtype", "radius"),
    [("float32", math.sqrt(66 * math.log(2))), ("float64", math.sqrt(106 * math.log(2)))],
)
def test_normal_tail_ends_where_the_bits_end(dtype, radius, monkeypatch):
    fake_words(monkeypatch, 0)

    y = draw("random_normal", shape=(2,), dtype=dtype)

    np.testing.assert_allclose(y, [radius, 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_follows_the_documented_formula(dtype):
    y = draw("random_normal", shape=(1000,), dtype=dtype)

    if dtype == "float32":
        words = random_bits(42, 7, 1000).astype(float)
        u = words[0::2] * 2.0**-32 + 2.0**-33
        v = words[1::2] // 256 * 2.0**-24
    else:
        pairs = random_bits(42, 7, 2000).view("<u8") >> np.uint64(11)
        u = (pairs[0::2] + 1.0) * 2.0**-53
        v = pairs[1::2] * 2.0**-53
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    np.testing.assert_allclose(y, expected, atol={"float32": 4e-6, "float64": 4e-15}[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_distribution(dtype):
    y = draw("random_normal", shape=(200_000,), dtype=dtype).astype(float)

    assert y.mean() == pytest.approx(0, abs=1e-2)
    assert y.var() == pytest.approx(1, abs=1e-2)
    assert stats.skew(y) == pytest.approx(0, abs=2e-2)
    assert stats.kurtosis(y) == pytest.approx(0, abs=5e-2)
    if dtype != "float16":
        assert stats.kstest(y, "norm").pvalue > UNLIKELY
        assert abs(np.corrcoef(y[0::2], y[1::2])[0, 1]) < 1e-2


@pytest.mark.parametrize("dtype", FLOATS)
def test_truncated_normal_distribution(dtype):
    y = draw("random_truncated_normal", shape=(100_000,), dtype=dtype).astype(float)

    assert np.all(np.abs(y) <= 2)
    assert y.mean() == pytest.approx(0, abs=1e-2)
    assert y.var() == pytest.approx(stats.truncnorm(-2, 2).var(), abs=1e-2)
    if dtype != "float16":
        assert stats.kstest(y, stats.truncnorm(-2, 2).cdf).pvalue > UNLIKELY


# Integers


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_the_full_range_are_the_upper_bits(dtype):
    limits = np.iinfo(dtype)

    y = draw("random_integers", shape=(1000,), dtype=dtype, low=limits.min, high=limits.max + 1)

    pairs = random_bits(42, 7, 2000).view("<u8")
    expected = [(int(pair) >> (64 - limits.bits)) + limits.min for pair in pairs]
    assert y.dtype == dtype
    assert y.tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, -127),
        ("int32", -3, 4),
        ("int32", 0, 2**31),
        ("uint32", 7, 2**32),
        ("int64", -(2**63), 2**63 - 1),
        ("int64", -5, 2**32 - 5),
        ("int64", 3, 2**40 + 12345),
        ("uint64", 1, 2**64),
        ("uint64", 2**63, 2**63 + 10),
    ],
)
def test_integers_are_the_upper_half_of_a_product(dtype, low, high):
    y = draw("random_integers", shape=(500,), dtype=dtype, low=low, high=high)

    pairs = random_bits(42, 7, 1000).view("<u8")
    assert y.tolist() == [low + (int(pair) * (high - low) >> 64) for pair in pairs]


def test_integers_are_equally_likely():
    y = draw("random_integers", shape=(100_000,), dtype="int64", low=-3, high=10)

    counts = np.bincount(y + 3)

    assert counts.size == 13
    assert stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize(("low", "high"), [(0, 0), (5, 3), (-129, 0), (0, 129)])
def test_integers_refuse_an_impossible_range(low, high):
    with pytest.raises(ValueError, match=rf"-128 <= low < high <= 128 .*low={low}, high={high}"):
        draw("random_integers", shape=(1,), dtype="int8", low=low, high=high)


# Permutation and mask


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutation_holds_every_index_once(n):
    order = draw("random_permutation", n=n)

    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_permutation_of_equal_keys_keeps_the_order(monkeypatch):
    fake_words(monkeypatch, 5)

    np.testing.assert_array_equal(draw("random_permutation", n=1000), np.arange(1000))


def test_permutations_are_equally_likely():
    orders = [draw("random_permutation", offset=i, n=4) for i in range(4800)]

    _, counts = np.unique(orders, axis=0, return_counts=True)

    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.1, 0.5, 0.7, 1.0])
def test_bernoulli_keeps_where_the_uniform_is_not_below_the_rate(rate):
    keep = draw("random_bernoulli", shape=(300, 1000), rate=rate)

    u = draw("random_uniform", shape=(300, 1000), dtype="float32")
    np.testing.assert_array_equal(keep, u >= np.float32(rate))
    assert keep.mean() == pytest.approx(1 - rate, abs=4e-3)


# bfloat16


@pytest.mark.parametrize("kind", ["random_uniform", "random_normal", "random_truncated_normal"])
def test_bfloat16_is_drawn(kind):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16

    y = draw(kind, shape=(10_000,), dtype=bfloat16)

    assert y.dtype == bfloat16
    wide = draw(kind, shape=(10_000,), dtype="float32")
    np.testing.assert_allclose(y.astype(np.float32), wide, rtol=2**-7)
    if kind == "random_uniform":
        assert y.max() < 1
