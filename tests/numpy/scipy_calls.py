"""A sample of SciPy's array-API functions on tensors: run this file with SCIPY_ARRAY_API=1.

Prints what became of each call as JSON: `right` (value and gradients are those of NumPy's arrays
and of differences), `told` (a warning that a tensor leaves the tape, or an error) or `wrong`.
"""

from __future__ import annotations

import json
import re
import sys
import warnings

import numpy as np
from scipy import constants, differentiate, fft, integrate, linalg, optimize, signal, special, stats
from scipy.cluster import vq
from scipy.optimize import elementwise
from scipy.spatial import distance

import tapegrad
import tapegrad.numpy as tnp

_rng = np.random.default_rng(7)
ARRAYS = {
    "x": _rng.uniform(0.2, 0.9, (3, 4)),
    "y": _rng.uniform(1.1, 2.5, (3, 4)),
    "v": _rng.normal(size=20),
    "w": _rng.normal(size=20),
    "s": _rng.uniform(0.5, 2.0, 16),
    "p": _rng.uniform(0.05, 0.9, 8),
    "m": _rng.normal(size=(4, 4)) + 4 * np.eye(4),
    "o": _rng.normal(size=(12, 3)),
    "q": _rng.uniform(0.5, 1.5, 4),
}
MODULES = {
    "constants": constants,
    "differentiate": differentiate,
    "distance": distance,
    "elementwise": elementwise,
    "fft": fft,
    "integrate": integrate,
    "linalg": linalg,
    "optimize": optimize,
    "signal": signal,
    "special": special,
    "stats": stats,
    "vq": vq,
}

CALLS = """
special.gammaln(y)
special.gamma(y)
special.digamma(y)
special.erf(x)
special.ndtri(x)
special.log_ndtr(x)
special.expit(x)
special.logit(x)
special.i0e(x)
special.j1(x)
special.xlogy(x, y)
special.entr(x)
special.rel_entr(x, y)
special.logsumexp(x, axis=1)
special.softmax(x, axis=0)
special.betaln(x, y)
special.beta(x, y)
special.gammainc(x, y)
special.chdtrc(y, x)
special.betainc(x, y, x)
special.betaincc(x, y, x)
special.stdtr(y, x)
special.fdtr(y, y, x)
special.fdtrc(y, y, x)
special.binom(y, x)
special.huber(x, y)
special.pseudo_huber(x, y)
special.exp10(x)
special.exprel(x)
special.inv_boxcox(x, y)
special.sindg(x)
special.cosm1(x)
special.radian(x, y, x)
special.multigammaln(y + 2, 2)
special.polygamma(1, y)
special.sph_harm_y(1, 1, x, y)
special.nctdtr(y, x, x)
stats.zscore(v)
stats.gmean(s)
stats.hmean(s)
stats.pmean(s, 3)
stats.moment(v, 3)
stats.skew(v)
stats.kurtosis(v)
stats.variation(s)
stats.sem(v)
stats.describe(v).variance
stats.tmean(v, (-1, 1))
stats.ttest_1samp(v, 0.1).pvalue
stats.ttest_ind(v, w).pvalue
stats.ttest_rel(v, w).statistic
stats.pearsonr(v, w).statistic
stats.pearsonr(v, w).pvalue
stats.skewtest(v).pvalue
stats.normaltest(v).statistic
stats.jarque_bera(v).pvalue
stats.bartlett(v, w).statistic
stats.levene(v, w).statistic
stats.f_oneway(v, w).pvalue
stats.chisquare(s).statistic
stats.power_divergence(s, lambda_=2/3).statistic
stats.combine_pvalues(p).statistic
stats.entropy(s)
stats.differential_entropy(v)
stats.directional_stats(o).mean_direction
stats.circmean(v)
stats.boxcox_llf(0.5, s)
stats.quantile(v, p)
stats.iqr(v)
stats.trim_mean(v, 0.1)
stats.lmoment(v)
stats.kendalltau(v, w).statistic
stats.linregress(v, w).slope
signal.fftconvolve(v, w)
signal.oaconvolve(v, w)
signal.hilbert(v)
signal.envelope(v)
signal.resample(v, 30)
signal.gausspulse(x)
signal.freqz(q, q + 3, worN=8)[1]
signal.zpk2tf(q, q, 2.0)[0]
signal.lfilter(q, q + 1, v)
signal.welch(v, nperseg=8)[1]
signal.medfilt(v, 3)
fft.fft(v)
fft.irfft(v)
fft.hfft(v)
fft.rfftn(x)
fft.fftshift(v)
fft.fht(s, 0.1, 1.0)
fft.dct(v)
vq.whiten(o)
vq.kmeans2(o, o[:3], minit="matrix")[0]
distance.cdist(o, o)
integrate.trapezoid(v)
integrate.cumulative_trapezoid(v)
integrate.cumulative_simpson(v)
integrate.romb(v[:17])
integrate.simpson(v)
integrate.tanhsinh(lambda z: z * z, q, q + 1).integral
differentiate.derivative(lambda z: z**3, q).df
differentiate.jacobian(lambda z: z**3, q).df
elementwise.find_root(lambda z, c: z * z - c, (0 * q, q + 2), args=(q,)).x
optimize.rosen(v)
optimize.rosen_der(v)
constants.convert_temperature(s, "C", "K")
constants.lambda2nu(s)
linalg.solve(m, q)
linalg.inv(m)
linalg.block_diag(m, m)
""".strip().split("\n")


def letters_in(call):
    return sorted({name for name in re.findall(r"\b([a-z])\b(?!\s*=[^=])", call) if name in ARRAYS})


def evaluate(call, arrays):
    return eval(call, {**MODULES, **arrays, "np": np})


def loss(result):
    """A number that depends on every part of a result, for arrays and tensors alike."""
    weights = np.cos(np.arange(int(np.prod(result.shape)))).reshape(tuple(result.shape))
    if np.iscomplexobj(result):
        result = np.real(result) + 0.7 * np.imag(result)
    return np.sum(result * weights)


def gradients(call, letters):
    tensors = {name: tnp.asarray(value) for name, value in ARRAYS.items()}
    with warnings.catch_warnings(), tapegrad.GradientTape() as tape:
        warnings.filterwarnings("error", "A tensor that a tape follows")
        tape.watch([tensors[name] for name in letters])
        result = evaluate(call, tensors)
        total = loss(result)
    sources = [tensors[name] for name in letters]
    return result, tape.gradient(total, sources, unconnected_gradients="zero")


def slope(call, name):
    """The derivative of the loss by one array, along one direction, from differences."""
    step = 1e-6 * np.random.default_rng(1).normal(size=ARRAYS[name].shape)
    up, down = (
        loss(np.asarray(evaluate(call, {**ARRAYS, name: ARRAYS[name] + sign * step})))
        for sign in (1, -1)
    )
    return (up - down) / 2, step


def outcome(call):
    letters = letters_in(call)
    try:
        result, found = gradients(call, letters)
    except (UserWarning, TypeError, ValueError, AttributeError, LookupError) as error:
        return f"told: {type(error).__name__}: {error}"
    expected = evaluate(call, ARRAYS)
    if not np.allclose(result.numpy(), expected, rtol=1e-6, atol=1e-9, equal_nan=True):
        return "wrong: another value"
    for name, gradient in zip(letters, found, strict=True):
        wanted, step = slope(call, name)
        if not abs(np.sum(gradient.numpy() * step) - wanted) <= 1e-11 + 1e-5 * abs(wanted):
            return f"wrong: another gradient by {name}"
    return "right"


if __name__ == "__main__":
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        json.dump({call: outcome(call) for call in CALLS}, sys.stdout)
