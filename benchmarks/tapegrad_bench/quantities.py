"""Numbers as people read them: three digits and the unit that fits."""

from __future__ import annotations

from math import floor, log10

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def format_digits(value: float, digits: int = 3) -> str:
    """Write `value` with at least `digits` digits and no exponent.

    >>> format_digits(0.123456), format_digits(12.0), format_digits(1234.5)
    ('0.123', '12.0', '1234')
    """
    if value == 0:
        return "0"
    places = digits - 1 - floor(log10(abs(value)))
    # Rounding first: 9.996 has one digit more before the point than it seems.
    rounded = round(value, max(places, 0))
    places = digits - 1 - floor(log10(abs(rounded)))
    return f"{rounded:.{max(places, 0)}f}"


def format_time(seconds: float) -> str:
    """Write a time in the unit that leaves one to three digits before the point.

    >>> format_time(0.000411), format_time(0.9999), format_time(0)
    ('411 µs', '1.00 s', '0 s')
    """
    return _scaled(seconds, _TIMES, 0.9995) if seconds else "0 s"


def format_bytes(count: float) -> str:
    """Write a number of bytes.

    >>> format_bytes(5.1 * 2**30), format_bytes(12)
    ('5.10 GiB', '12 B')
    """
    return f"{count:.0f} B" if count < 1024 else _scaled(count, _BYTES, 1.0)


def format_count(value: float) -> str:
    """Write a size along an axis: whole numbers as they are, large ones with a suffix.

    >>> format_count(4096), format_count(67108864)
    ('4096', '67.1M')
    """
    return f"{value:.0f}" if value < 10_000 else _scaled(value, _COUNTS, 1.0).replace(" ", "")


def format_ratio(ratio: float) -> str:
    """Write how many times one thing is another.

    >>> format_ratio(1.0), format_ratio(61.03), format_ratio(0.5)
    ('1.00x', '61.0x', '0.500x')
    """
    return f"{format_digits(ratio)}x"


def format_percent(percent: float) -> str:
    """Write a percentage; a sign is for changes, and the caller's.

    >>> format_percent(89.31), format_percent(0.123)
    ('89 %', '0.1 %')
    """
    return f"{percent:.0f} %" if abs(percent) >= 9.95 else f"{percent:.1f} %"


def format_rate(tera: float, unit: str) -> str:
    """Write a rate given in tera-units per second.

    >>> format_rate(0.021, "B/s"), format_rate(850.0, "FLOP/s")
    ('21.0 GB/s', '850 TFLOP/s')
    """
    value = tera * 1e12
    scale, prefix = next((pair for pair in _COUNTS if value >= 0.9995 * pair[0]), _COUNTS[-1])
    return f"{format_digits(value / scale)} {prefix}{unit}"


def format_value(value: float, unit: str) -> str:
    """Write what a cell holds: a time, or megabytes.

    >>> format_value(0.012, "s"), format_value(2.5, "MB")
    ('12.0 ms', '2.50 MB')
    """
    return format_time(value) if unit == "s" else f"{format_digits(value)} {unit}"


def _scaled(value: float, units: tuple[tuple[float, str], ...], least: float) -> str:
    for scale, name in units:
        if abs(value) >= least * scale:
            return f"{format_digits(value / scale)} {name}"
    scale, name = units[-1]
    return f"{format_digits(value / scale)} {name}"
