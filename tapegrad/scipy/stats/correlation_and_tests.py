"""Correlation, linear regression, tests of means, and distances between samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort, searchsorted, sort
from tapegrad.ops.reduction.primitives import any as any_over
from tapegrad.scipy.stats.normal import norm
from tapegrad.scipy.stats.ratios import f as f_distribution
from tapegrad.scipy.stats.samples import Values, read_values, root
from tapegrad.scipy.stats.shares import beta as beta_distribution
from tapegrad.scipy.stats.student import t as t_distribution
from tapegrad.scipy.vocabulary import (
    atanh,
    cast,
    concat,
    cumsum,
    diff,
    expand_dims,
    gather,
    isnan,
    largest,
    maximum,
    minimum,
    moveaxis,
    numpy_dtype_of,
    operand,
    operands,
    reshape_p,
    stop_gradient,
    sum_over,
    tanh,
    where,
)


class ConfidenceInterval(NamedTuple):
    """The ends of a confidence interval."""

    low: Any
    high: Any


class Significance(NamedTuple):
    """A test statistic and its p-value."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic, under the name of the functions of correlation."""
        return self.statistic


class PearsonRResult(Significance):
    """A correlation and its p-value; the number of pairs is only an attribute."""

    pairs: int
    alternative: str

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the confidence interval of the correlation by Fisher's transformation."""
        _check_level(confidence_level)
        low, high = 0.0 * self.statistic - 1.0, 0.0 * self.statistic + 1.0
        if self.pairs <= 3:
            return ConfidenceInterval(low, high)
        reach = _reach(norm, confidence_level, self.alternative) / (self.pairs - 3) ** 0.5
        middle = atanh(self.statistic)
        if self.alternative != "less":
            low = tanh(middle - reach)
        if self.alternative != "greater":
            high = tanh(middle + reach)
        return ConfidenceInterval(low, high)


class TtestResult(Significance):
    """A t statistic and its p-value; the degrees of freedom are only an attribute."""

    df: Any
    alternative: str
    estimate: Any
    standard_error: Any

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the confidence interval of the mean, or of the difference of the means."""
        _check_level(confidence_level)
        dist = t_distribution(self.df)
        reach = _reach(dist, confidence_level, self.alternative) * self.standard_error
        low, high = self.estimate - reach, self.estimate + reach
        if self.alternative == "less":
            low = 0.0 * low - math.inf
        if self.alternative == "greater":
            high = 0.0 * high + math.inf
        return ConfidenceInterval(low, high)


def _check_level(level: float) -> None:
    if not 0 <= level <= 1:
        raise ArgumentError(f"confidence_level must be a number from 0 to 1. Got {level!r}.")


def _reach(dist: Any, level: float, alternative: str) -> Any:
    return dist.ppf(0.5 + 0.5 * level if alternative == "two-sided" else level)


def _noted(result: Any, **attributes: Any) -> Any:
    """Return a tuple with attributes beside its elements."""
    for name, value in attributes.items():
        setattr(result, name, value)
    return result


def _pair(x: Any, y: Any, axis: Any, name: str) -> tuple[Any, Any]:
    """Return two samples of the same shape with the axis last."""
    x, y = operands(x, y)
    if axis is None:
        x, y, axis = reshape_p(x, shape=(-1,)), reshape_p(y, shape=(-1,)), 0
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape != y.shape:
        raise ShapeError(
            f"{name} needs two samples of the same shape. Got {x.shape} and {y.shape}."
        )
    return x, y


def _correlation(x: Any, y: Any) -> Any:
    x, y = _centered(x), _centered(y)
    squares = sum_over(x * x, -1) * sum_over(y * y, -1)
    is_constant = squares == 0
    r = sum_over(x * y, -1) / where(is_constant, 1.0, squares) ** 0.5
    return where(is_constant, math.nan, _clip_keep_gradient(r, -1.0, 1.0))


def _centered(x: Any) -> Any:
    """Return the deviations from the mean divided by the largest, whose squares do not overflow."""
    x = x - sum_over(x, -1, True) / x.shape[-1]
    unit = stop_gradient(largest(abs(x), -1, True))
    return x / where((unit > 0) & (unit < math.inf), unit, 1.0)


def _clip_keep_gradient(r: Any, low: float, high: float) -> Any:
    """Clip r, which only rounding can move out of bounds, and keep its gradient."""
    return r + stop_gradient(minimum(maximum(r, low), high) - r)


def pearsonr(x: Any, y: Any, *, alternative: str = "two-sided", axis: Any = 0) -> PearsonRResult:
    """Return the Pearson correlation of two samples and its p-value.

    >>> round(float(pearsonr([1.0, 2.0, 4.0], [2.0, 1.0, 5.0]).statistic), 6)
    0.838628
    """
    x, y = _pair(x, y, axis, "pearsonr")
    if x.shape[-1] < 2:
        raise ArgumentError(f"pearsonr needs at least two pairs. Got {x.shape[-1]}.")
    r = _correlation(x, y)
    half = 0.5 * x.shape[-1] - 1
    pvalue = 0.0 * r + 1
    if half > 0:
        spread = beta_distribution(half, half, -1, 2)
        pvalue = _pvalue(spread, r, alternative, "pearsonr")
    result = PearsonRResult(r, pvalue)
    return _noted(result, pairs=x.shape[-1], alternative=alternative)  # type: ignore[no-any-return]


def _pvalue(dist: Any, y: Any, alternative: str, name: str) -> Any:
    check_choice(f"alternative of {name}", alternative, ("two-sided", "less", "greater"))
    if alternative == "less":
        return dist.cdf(y)
    return dist.sf(y) if alternative == "greater" else 2 * dist.sf(abs(y))


def rankdata(
    a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate"
) -> Any:
    """Return the ranks in float64, starting at 1; they have no gradient.

    The methods for ties are "average", "min", "max", "dense" and "ordinal". Without an axis all
    values are ranked together. A NaN makes all ranks NaN unless `nan_policy` is "omit".

    >>> rankdata([0.0, 2.0, 3.0, 2.0]).tolist()
    [1.0, 2.5, 4.0, 2.5]
    """
    check_choice("nan_policy of rankdata", nan_policy, ("propagate", "omit"))
    x = stop_gradient(as_operand(a))
    if numpy_dtype_of(x).kind not in "iu":
        # Half and single precision cannot hold all ranks of long rows.
        x = cast(operand(x), "float64")
    if axis is None:
        x, axis = reshape_p(x, shape=(-1,)), 0
    rows = moveaxis(x, axis, -1)
    if not math.prod(rows.shape):
        return cast(x, "float64" if method == "average" else "int64")
    is_whole = numpy_dtype_of(x).kind in "iu"
    ranks = _ranks(_levels(rows) if is_whole else rows, method)
    if not is_whole:
        is_none = isnan(rows)
        is_undefined = any_over(is_none, -1, True) if nan_policy == "propagate" else is_none
        ranks = where(is_undefined, math.nan, ranks)
    return moveaxis(ranks, -1, axis)


def _levels(x: Any) -> Any:
    """Return the dense ranks of integers, which doubles may not hold, in double precision."""
    order = argsort(x, -1, stable=True)
    ordered = take_along_axis(x, order, -1)
    steps = cast(ordered[..., 1:] != ordered[..., :-1], "float64")
    start = cast(ordered[..., :1] == ordered[..., :1], "float64")
    levels = concat([start, cumsum(steps, -1) + 1], -1)
    return take_along_axis(levels, argsort(order, -1), -1)


def _ranks(x: Any, method: str) -> Any:
    dtype = numpy_dtype_of(x)
    if method == "ordinal":
        return cast(argsort(argsort(x, -1, stable=True), -1, stable=True), dtype) + 1
    ordered = sort(x, -1)
    if method == "dense":
        # The number of distinct values up to each position.
        steps = cast(diff(ordered) > 0, dtype)
        levels = concat([0.0 * ordered[..., :1] + 1, cumsum(steps, -1) + 1], -1)
        return take_along_axis(levels, searchsorted(ordered, x, "left"), -1)
    first = cast(searchsorted(ordered, x, "left"), dtype) + 1
    last = cast(searchsorted(ordered, x, "right"), dtype)
    ranks = {"average": 0.5 * (first + last), "min": first, "max": last}
    if method not in ranks:
        raise ArgumentError(
            f"method of rankdata must be average, min, max, dense or ordinal. Got {method!r}."
        )
    return ranks[method]


def spearmanr(
    a: Any,
    b: Any = None,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
) -> Significance:
    """Return the Spearman correlation of two samples and its p-value, without gradients.

    In a matrix every column (or row, with axis 1) is a sample. For more than two samples in `a` and
    `b` together, the result is the correlation matrix.

    >>> float(spearmanr([1.0, 2.0, 9.0], [1.0, 4.0, 5.0]).statistic)
    1.0
    """
    check_choice("nan_policy of spearmanr", nan_policy, ("propagate",))
    rows = _samples(a, b, axis)
    count = rows.shape[0]
    df = float(rows.shape[-1] - 2)
    if df < 0:
        raise ArgumentError(f"spearmanr needs at least two pairs. Got {rows.shape[-1]}.")
    ranks = rankdata(rows, axis=-1)
    if count == 2:
        r = _correlation(ranks[0], ranks[1])
    else:
        r = _correlation(expand_dims(ranks, 1), expand_dims(ranks, 0))
    rest = (r + 1) * (1 - r)
    is_end = rest <= 0
    inside = r * (df / where(is_end, 1.0, rest)) ** 0.5
    score = where(is_end, where(r > 0, math.inf, -math.inf), inside)
    return Significance(r, _pvalue(t_distribution(df), score, alternative, "spearmanr"))


def _samples(a: Any, b: Any, axis: Any) -> Any:
    """Return the samples of `spearmanr` as rows of a matrix."""
    parts = [operand(a)] if b is None else operands(a, b)
    if axis is None:
        parts = [reshape_p(x, shape=(-1,)) for x in parts]
    if any(x.ndim not in (1, 2) for x in parts) or axis not in (None, 0, 1):
        raise ShapeError("spearmanr needs vectors or matrices, and an axis of 0, 1 or None.")
    rows = [expand_dims(x, 0) if x.ndim == 1 else moveaxis(x, axis, -1) for x in parts]
    if len({x.shape[-1] for x in rows}) > 1 or sum(x.shape[0] for x in rows) < 2:
        raise ShapeError(
            "spearmanr needs at least two samples, all of the same length. Got shapes "
            f"{', '.join(str(tuple(x.shape)) for x in parts)}."
        )
    return concat(rows, 0)


class _Line(NamedTuple):
    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any


class LinregressResult(_Line):
    """The result of a linear regression.

    As in SciPy it is a tuple of five elements; the intercept's error is only an attribute.
    """

    intercept_stderr: Any


def linregress(
    x: Any, y: Any, alternative: str = "two-sided", *, axis: Any = 0
) -> LinregressResult:
    """Fit a line to points by least squares.

    >>> line = linregress([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 8.0])
    >>> round(float(line.slope), 6), round(float(line.intercept), 6)
    (2.3, 0.8)
    """
    x, y = _pair(x, y, axis, "linregress")
    n = x.shape[-1]
    if n < 2:
        raise ArgumentError(f"linregress needs at least two points. Got {n}.")
    x_mean, y_mean = sum_over(x, -1) / n, sum_over(y, -1) / n
    x_gap, y_gap = x - expand_dims(x_mean, -1), y - expand_dims(y_mean, -1)
    xx, xy, yy = (sum_over(p, -1) / n for p in (x_gap * x_gap, x_gap * y_gap, y_gap * y_gap))
    is_flat = (xx == 0) | (yy == 0)
    r = where(
        is_flat, 0.0, _clip_keep_gradient(xy / where(is_flat, 1.0, xx * yy) ** 0.5, -1.0, 1.0)
    )
    slope = xy / xx
    intercept = y_mean - slope * x_mean
    df = float(n - 2)
    if n == 2:
        zero = 0.0 * r
        pvalue = where(y[..., 0] == y[..., 1], 1.0, zero)
        return _line(slope, intercept, r, pvalue, zero, zero)
    tiny = 1e-20
    score = r * (df / ((1 - r + tiny) * (1 + r + tiny))) ** 0.5
    pvalue = _pvalue(t_distribution(df), score, alternative, "linregress")
    stderr = root((1 - r * r) * yy / xx / df)
    return _line(slope, intercept, r, pvalue, stderr, stderr * (xx + x_mean * x_mean) ** 0.5)


def _line(*numbers: Any) -> LinregressResult:
    *line, error = numbers
    result = _noted(LinregressResult(*line), intercept_stderr=error)
    return result  # type: ignore[no-any-return]


# Tests of means


def ttest_1samp(
    a: Any,
    popmean: Any,
    axis: Any = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
) -> TtestResult:
    """Return the t-test of the mean of a sample against `popmean`.

    >>> round(float(ttest_1samp([1.0, 2.0, 3.0], 0.0).statistic), 6)
    3.464102
    """
    values = read_values(a, axis, nan_policy, "ttest_1samp")
    error = (values.var(1) / values.count) ** 0.5
    mean = values.mean(values.x)
    score = values.without_axis((mean - popmean) / error)
    df = values.count - 1
    df = df if isinstance(df, float) else values.without_axis(df)
    pvalue = _pvalue(t_distribution(df), score, alternative, "ttest_1samp")
    mean, error = values.without_axis(mean), values.without_axis(error)
    return _ttest(score, pvalue, df, alternative, mean, error)


def _ttest(
    score: Any, pvalue: Any, df: Any, alternative: str, estimate: Any, error: Any
) -> TtestResult:
    result = _noted(
        TtestResult(score, pvalue),
        df=df + 0.0 * score,
        alternative=alternative,
        estimate=estimate,
        standard_error=error,
    )
    return result  # type: ignore[no-any-return]


def ttest_rel(
    a: Any, b: Any, axis: Any = 0, nan_policy: str = "propagate", alternative: str = "two-sided"
) -> TtestResult:
    """Return the t-test of paired samples.

    >>> round(float(ttest_rel([1.0, 2.0, 3.0], [0.0, 1.0, 0.0]).statistic), 6)
    2.5
    """
    a, b = operands(a, b)
    return ttest_1samp(a - b, 0.0, axis, nan_policy, alternative)


def ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: Any = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: float = 0.0,
) -> TtestResult:
    """Return the t-test of two independent samples; Welch's test unless `equal_var`.

    With `trim` it is Yuen's test, which leaves out this share of the values at each end.

    >>> round(float(ttest_ind([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]).statistic), 6)
    1.224745
    """
    a, b = operands(a, b)
    one, two = (read_values(x, axis, nan_policy, "ttest_ind") for x in (a, b))
    (n, first, u), (m, second, v) = (_trimmed(values, trim) for values in (one, two))
    if equal_var:
        df = n + m - 2
        error = (u + v) / df * (1 / n + 1 / m)
    else:
        u, v = u / (n - 1) / n, v / (m - 1) / m
        error = u + v
        # Use ratios to the error, whose squares do not underflow.
        is_flat = error == 0
        whole = where(is_flat, 1.0, error)
        ratio = (u / whole) ** 2 / (n - 1) + (v / whole) ** 2 / (m - 1)
        df = where(is_flat, 1.0, 1 / where(is_flat, 1.0, ratio))
    gap, error = first - second, error**0.5
    score, df = one.without_axis(gap / error), one.without_axis(df)
    pvalue = _pvalue(t_distribution(df), score, alternative, "ttest_ind")
    gap, error = one.without_axis(gap), one.without_axis(error)
    return _ttest(score, pvalue, df, alternative, gap, error)


def _trimmed(values: Values, trim: float) -> tuple[Any, Any, Any]:
    """Return number, mean and squared deviations of the values between the ends.

    The deviations are those of values of which the ones at the ends are replaced by neighbours.
    """
    if not 0 <= trim < 0.5:
        raise ArgumentError(f"trim of ttest_ind must be at least 0 and below 0.5. Got {trim!r}.")
    mean = values.mean(values.x)
    left_out = int(trim * values.x.shape[values.axis])
    if not left_out:
        return values.count + 0.0 * mean, mean, values.total(values.deviations() ** 2)
    if values.is_present is not None:
        raise ArgumentError("ttest_ind with trim needs nan_policy='propagate'.")
    ordered = moveaxis(sort(values.x, values.axis), values.axis, -1)
    inner = ordered[..., left_out:-left_out]
    size = float(inner.shape[-1])
    middle = sum_over(inner, -1, True) / size
    ends = concat([inner[..., :1]] * left_out + [inner] + [inner[..., -1:]] * left_out, -1)
    deviations = ends - sum_over(ends, -1, True) / ends.shape[-1]
    squares = sum_over(deviations * deviations, -1, True)
    middle, squares = (moveaxis(y, -1, values.axis) for y in (middle, squares))
    return size + 0.0 * middle, middle, squares


def f_oneway(*samples: Any, axis: Any = 0) -> Significance:
    """Return the one-way ANOVA of the means of at least two samples.

    >>> round(float(f_oneway([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]).statistic), 6)
    1.5
    """
    if len(samples) < 2:
        raise ArgumentError(f"f_oneway needs at least two samples. Got {len(samples)}.")
    groups = [read_values(x, axis, "propagate", "f_oneway") for x in operands(*samples)]
    # The result does not depend on a number that is added to all values; small numbers are exact.
    offset = stop_gradient(groups[0].mean(groups[0].x))
    groups = [replace(group, x=group.x - offset) for group in groups]
    counts = [group.count for group in groups]
    total = sum(counts)
    means = [group.mean(group.x) for group in groups]
    middle = sum(n * mean for n, mean in zip(counts, means)) / total
    between = sum(n * (mean - middle) ** 2 for n, mean in zip(counts, means))
    within = sum(group.total(group.deviations() ** 2) for group in groups)
    degrees = float(len(groups) - 1), total - len(groups)
    score = groups[0].without_axis((between / degrees[0]) / (within / degrees[1]))
    return Significance(score, f_distribution.sf(score, *degrees))


# Distances between one-dimensional distributions


def wasserstein_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    """Return the Wasserstein distance of two samples, differentiable in all arguments.

    >>> float(wasserstein_distance([0.0, 1.0, 3.0], [5.0, 6.0, 8.0]))
    5.0
    """
    gaps, steps = _cdf_differences(u_values, v_values, u_weights, v_weights, "wasserstein_distance")
    return sum_over(abs(gaps) * steps, -1)


def energy_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    """Return the energy distance of two samples, differentiable in all arguments.

    >>> round(float(energy_distance([0.0], [2.0])), 6)
    2.0
    """
    gaps, steps = _cdf_differences(u_values, v_values, u_weights, v_weights, "energy_distance")
    return root(2 * sum_over(gaps * gaps * steps, -1))


def _cdf_differences(u: Any, v: Any, u_weights: Any, v_weights: Any, name: str) -> tuple[Any, Any]:
    """Return the differences of two empirical CDFs between all values, and the spacings."""
    u, v = operands(u, v)
    for x in (u, v):
        if x.ndim != 1 or not x.shape[0]:
            raise ShapeError(f"{name} needs non-empty vectors. Got shapes {u.shape} and {v.shape}.")
    everything = sort(concat([u, v], 0), -1)
    places = everything[:-1]
    gaps = _cdf_at(places, u, u_weights) - _cdf_at(places, v, v_weights)
    return gaps, diff(everything)


def _cdf_at(places: Any, x: Any, weights: Any) -> Any:
    """Return the fraction of x, or of its weights, up to each of the places."""
    order = argsort(stop_gradient(x), -1)
    ordered = gather(stop_gradient(x), order)
    index = searchsorted(ordered, stop_gradient(places), "right")
    if weights is None:
        return cast(index, numpy_dtype_of(x)) / x.shape[0]
    weights = operands(x, weights)[1]
    if weights.shape != x.shape:
        raise ShapeError(
            f"There must be one weight for each of {x.shape[0]} values. Got shape {weights.shape}."
        )
    # Negative weights are invalid and give NaN.
    weights = gather(where(weights < 0, math.nan, weights), order)
    sums = concat([0.0 * weights[:1], cumsum(weights, 0)], 0)
    return gather(sums, index) / sums[-1]
