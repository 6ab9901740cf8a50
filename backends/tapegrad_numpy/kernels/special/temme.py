"""Temme's uniform expansion of the incomplete gamma functions for large a, and its a-derivative.

With ratio = x/a and eta^2/2 = ratio - 1 - log(ratio), signed like ratio - 1,
Q(a, x) = erfc(eta sqrt(a/2))/2 + exp(-a eta^2/2) / sqrt(2 pi a) * sum_k c_k(eta) a^-k.
"""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import log_excess, polynomial
from tapegrad_numpy.kernels.special.blocks import Array
from tapegrad_numpy.kernels.special.error import erfc
from tapegrad_numpy.kernels.special.gamma import stirling_error

# c_k(eta) for |eta| <= 1, to an error that a^-k takes below 1e-17 for a >= 20.
# fmt: off
ROWS: tuple[tuple[float, ...], ...] = (
    (-2.906137668009576e-12, 2.3091148846857128e-11, -6.325491555554529e-11,
     -2.1806756949284486e-11, 9.210025796416389e-10, -4.386708290064431e-09,
     1.0257094259515712e-08, 6.711120782974829e-09, -1.7665732029125444e-07,
     8.296697940005515e-07, -1.8540628409864913e-06, -2.1854481929791843e-06,
     3.9192631889006336e-05, -0.00017875514407331104, 0.00035273368605829637,
     0.001157407407409725, -0.01481481481481453, 0.0833333333333333, -0.3333333333333333,),
    (-1.3870166432523206e-11, -4.7651419078550884e-11, 4.44825614559758e-10,
     -1.0835050692246889e-09, -4.993577823470501e-11, 1.202821861113699e-08,
     -5.75034194663113e-08, 1.378177606372629e-07, 4.637998222447382e-09, -1.6120742175758515e-06,
     7.649163154542295e-06, -1.8098553431769893e-05, -4.018778717382003e-07,
     0.00020576131717474236, -0.000990226337430138, 0.002645502645491299, -0.003472222222222559,
     -0.0018518518518517819,),
    (1.687520675641061e-10, -2.2595070022066022e-10, -1.4345721947099354e-09,
     6.617512831562521e-09, -1.4026660670984896e-08, -5.606777806791092e-10,
     1.4276729949895775e-07, -6.297127904352396e-07, 1.3722095095774637e-06,
     3.4180270798099204e-08, -1.2760637985308429e-05, 5.292345760783892e-05,
     -0.00010736653197446043, 2.0093872363151806e-06, 0.0007716049382598705,
     -0.0026813271604808884, 0.004133597883597964,),
    (2.702118519210912e-09, -3.397353523649867e-09, -2.00505403266896e-08, 8.598121583474088e-08,
     -1.688121184010281e-07, -3.783307771026135e-09, 1.4227246178129214e-06,
     -5.673432065465384e-06, 1.1082750626149475e-05, -2.39967318774827e-07,
     -7.561802951803273e-05, 0.0002677206611971491, -0.0004691894937335039,
     0.00022947209284552496, 0.0006494341563727818,),
    (-1.2528882254620572e-08, 3.74787204445468e-08, -3.427259910146964e-09,
     -2.394230932096713e-07, 8.938604260469039e-07, -1.6891355176447694e-06,
     -1.1772745505399101e-09, 1.1373672398826108e-05, -3.968331998451117e-05,
     6.641530680969671e-05, -1.4638787418202656e-06, -0.0002990724996688957,
     0.0007840392226998778, -0.0008618882907281693,),
    (-1.6250375408615237e-07, 4.491961464807212e-07, -3.862806485239965e-08,
     -2.389755069219422e-06, 8.045710193768554e-06, -1.3547960737021096e-05,
     1.3291858131981925e-07, 6.796776764964897e-05, -0.00019932445596086736,
     0.00027727613375962655, -6.972818687334002e-05, -0.000336798563952164,),
    (-1.782137479400994e-06, 4.482361043797026e-06, -3.5000683652804326e-07,
     -1.908039882925164e-05, 5.629826271770629e-05, -8.129909690316175e-05, 7.532273455110683e-07,
     0.00027085056754415273, -0.0005921643597310229, 0.000531308447241908,),
    (2.2937110791437396e-06, -1.6246409773967677e-05, 3.126733123697778e-05,
     -2.108103952989206e-06, -0.00011120284967587816, 0.00028187604530465973,
     -0.0003347229848633184, 5.167069255696806e-05, 0.0003443626107656656,),
    (1.5515476607592513e-05, 2.074798755790094e-05, -0.00014031958528416146,
     0.00018311147598918493, 3.184303501956274e-06, -0.0004416751339874948, 0.0008391572615821492,
     -0.000652518598882616,),
    (0.00011064915781475354, 0.0001240765640428972, -0.000701713982612071, 0.000737972938132015,
     -6.277242475850373e-05, -0.0006000864216354597,),
    (0.0005709106671743632, 0.0004947261325882342, -0.0020901518404430846, 0.0014105821592773563,),
    (0.0019692197852523414, 0.000385712947276214,),
    (-0.005531301611358387,),
)
# fmt: on

_SLOPES = tuple(tuple(c * (len(row) - 1 - i) for i, c in enumerate(row[:-1])) for row in ROWS)


def is_uniform(a: Array, x: Array) -> Array:
    """Tell where the expansion holds to full accuracy: a >= 20 and |eta| <= 1."""
    return (a >= 20.0) & (x > 0.31 * a) & (x < 2.3 * a) & (a < np.inf)


def uniform_tail(a: Array, x: Array, *, upper: bool) -> Array:
    """Evaluate Q(a, x) if upper, else P(a, x), where is_uniform."""
    eta, _, excess = _variables(a, x)
    inverse = 1.0 / a
    total = np.zeros(a.shape)
    for k in range(_terms(a), -1, -1):
        total = total * inverse + _evaluate(ROWS[k], eta)
    rest = np.exp(-excess) / np.sqrt(2.0 * np.pi * a) * total
    argument = eta * np.sqrt(0.5 * a)
    return 0.5 * erfc(argument) + rest if upper else 0.5 * erfc(-argument) - rest


def uniform_slope(a: Array, x: Array) -> Array:
    """Evaluate (dP/da) / (x^a exp(-x) / Gamma(a + 1)), where is_uniform."""
    eta, offset, _ = _variables(a, x)
    inverse = 1.0 / a
    log = np.log1p(offset)
    # offset / eta = 1 / (1 + eta c_0) has no hole at eta = 0, and d eta / da = -offset / (a eta).
    stretch = 1.0 / (1.0 + eta * polynomial(ROWS[0], eta))
    total = np.zeros(a.shape)
    for k in range(_terms(a), -1, -1):
        slope = stretch * _evaluate(_SLOPES[k], eta)
        value = _evaluate(ROWS[k], eta)
        total = total * inverse + (log - (k + 0.5) * inverse) * value - slope * inverse
    return -(stretch - 0.5 * eta + total) * np.exp(stirling_error(a))


def _variables(a: Array, x: Array) -> tuple[Array, Array, Array]:
    offset = (x - a) / a
    half = log_excess(x / a, offset)
    return np.copysign(np.sqrt(2.0 * half), offset), offset, a * half


def _terms(a: Array) -> int:
    """The last power of 1/a that matters at the smallest a."""
    return min(len(ROWS) - 1, math.ceil(39.0 / math.log(float(a.min()))))


def _evaluate(row: tuple[float, ...], eta: Array) -> Array:
    if len(row) > 1:
        return polynomial(row, eta)
    return row[0] if row else 0.0
