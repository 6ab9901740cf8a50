"""What a line does with a value that it reads, found from its instruction and its source."""

from __future__ import annotations

import linecache
import math
import sys

import numpy as np
import pytest

from tapegrad.core.value_use import Use, use_at


class Spy:
    """A number that notes the use of each read."""

    def __init__(self):
        self.uses = []

    def __float__(self):
        self.uses.append(use_at(sys._getframe(1)))
        return 2.0

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise IndexError


@pytest.fixture
def x():
    return Spy()


COMPUTED = Use("", False, False)
SHOWN = Use("", False, True)


def kinds(spy):
    return [(use.reader, use.shows) for use in spy.uses]


def test_functions_are_named(x):
    math.sin(x)
    y = math.cos(math.sqrt(x)) + float(x)
    assert y is not None

    assert kinds(x) == [("math.sin", False), ("math.sqrt", False), ("float", False)]


def test_several_statements_on_one_line(x):
    a = np.zeros(2); a[0] = x; b = math.sin(x); text = f"{float(x)}"  # noqa: E702  # fmt: skip
    assert (b, text) == (math.sin(2.0), "2.0")

    assert [use.stores for use in x.uses] == [True, False, False]
    assert kinds(x) == [("", False), ("math.sin", False), ("float", True)]


def test_statements_of_several_lines(x):
    total = max(
        1.0,
        math.sin(
            x,
        ),
    )
    text = f"""
    {float(x):.3f}
    """
    print(  # noqa: T201
        total,
        [
            round(
                float(x),
                2,
            )
        ],
        text,
    )

    assert kinds(x) == [("math.sin", False), ("float", True), ("float", True)]


def test_inside_other_code(x):
    def inner():
        def innermost():
            return math.sin(x)

        return innermost

    class Body:
        member = math.cos(x)

    inner()()
    (lambda: math.tan(x))()
    [math.exp(x) for _ in range(2)]
    match len([x]):
        case 1:
            math.log(x)
    try:
        raise KeyError
    except KeyError:
        math.log2(x)
    else:
        assert Body is None

    names = ["cos", "sin", "tan", "exp", "exp", "log", "log2"]
    assert kinds(x) == [(f"math.{name}", False) for name in names]


def test_a_name_that_keeps_the_value_is_no_display(x):
    print(y := float(x))  # noqa: T201
    print((lambda: float(x))())  # noqa: T201
    assert y == 2.0

    assert kinds(x) == [("float", False), ("float", False)]


def test_logarithms_are_not_logging(x):
    math.log(float(x))
    np.log(float(x))

    assert not any(use.shows for use in x.uses)


SOURCE = """
import math
def compute(x):
    return math.sin(x)
def store(a, x):
    a[0] = x
def write(x):
    return "%f" % x
"""


def test_code_without_source_is_known_by_its_instructions(x):
    names = {}
    exec(SOURCE, names)
    names["compute"](x)
    names["store"](np.zeros(2), x)
    names["write"](x)

    assert x.uses == [COMPUTED, Use("", True, False), SHOWN]


def test_code_in_a_file_of_another_kind(x, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n```python\n{SOURCE}```\n")
    names = {}
    exec(compile("\n\n\n" + SOURCE, str(page), "exec"), names)
    linecache.checkcache(str(page))
    names["compute"](x)

    assert x.uses == [Use("math.sin", False, False)]


def test_a_file_that_has_changed_does_no_harm(x, tmp_path):
    page = tmp_path / "changed.py"
    page.write_text("this is no Python (")
    names = {}
    exec(compile(SOURCE, str(page), "exec"), names)
    linecache.checkcache(str(page))
    names["compute"](x)

    assert x.uses == [COMPUTED]
