"""Random Python programs with branches, loops and jumps, eagerly and as recorded functions."""

from __future__ import annotations

import linecache
import random
import warnings
from typing import Any

import pytest

import tapegrad as tf
from tests.seeds import program_seeds

NAMES = ("a", "b", "c", "x")
HEAD = ["def program(x, xs):", "    a = x", "    b = x + 1", "    c = x * 2"]


class Writer:
    """Writes the source of a random program on whole numbers."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._loops = 0

    def source(self) -> str:
        body = self._block(3, False, 1) + self._block(3, False, 1)
        return "\n".join([*HEAD, *body, "    return a, b, c", ""])

    def _expression(self) -> str:
        draw = self._draw
        first = draw.choice([*NAMES, str(draw.randint(-3, 5))])
        second = draw.choice([*NAMES, str(draw.randint(1, 5))])
        return f"({first} {draw.choice('+-*')} {second}) % {draw.randint(5, 23)}"

    def _comparison(self) -> str:
        draw = self._draw
        sign = draw.choice(["<", ">", "==", "!=", "<=", ">="])
        return f"{draw.choice(NAMES)} {sign} {draw.randint(-2, 9)}"

    def _condition(self) -> str:
        match self._draw.randint(0, 6):
            case 0:
                return f"({self._comparison()} and {self._comparison()})"
            case 1:
                return f"({self._comparison()} or {self._comparison()})"
            case 2:
                return f"not {self._comparison()}"
            case 3:
                return f"{self._draw.randint(-1, 3)} < {self._draw.choice(NAMES)} < 7"
        return self._comparison()

    def _block(self, depth: int, in_loop: bool, level: int) -> list[str]:
        count = self._draw.randint(1, 3)
        return [line for _ in range(count) for line in self._statement(depth, in_loop, level)]

    def _statement(self, depth: int, in_loop: bool, level: int) -> list[str]:
        kind, space = self._draw.random(), "    " * level
        if depth > 0 and kind < 0.3:
            return self._branches(depth, in_loop, level)
        if depth > 0 and kind < 0.5:
            return self._loop(depth, in_loop, level)
        if depth > 0 and kind < 0.65:
            jumps = [f"return {self._expression()}, a, b"]
            jumps += ["break", "continue"] * in_loop
            return [f"{space}if {self._condition()}:", f"{space}    {self._draw.choice(jumps)}"]
        name = self._draw.choice("abc")
        if kind < 0.75:
            return [f"{space}{name} += {self._expression()}"]
        if kind < 0.85:
            chosen = f"{self._expression()} if {self._condition()} else {self._expression()}"
            return [f"{space}{name} = {chosen}"]
        return [f"{space}{name} = {self._expression()}"]

    def _branches(self, depth: int, in_loop: bool, level: int) -> list[str]:
        heads = [f"if {self._condition()}:"]
        heads += [f"elif {self._condition()}:"] * (self._draw.random() < 0.3)
        heads += ["else:"] * (self._draw.random() < 0.5)
        return [
            line
            for head in heads
            for line in ["    " * level + head, *self._block(depth - 1, in_loop, level + 1)]
        ]

    def _loop(self, depth: int, in_loop: bool, level: int) -> list[str]:
        self._loops += 1
        name, space = f"i{self._loops}", "    " * level
        kind = self._draw.choice(["while", "tf.range(x % 5)", "range(3)", "xs"])
        lines = [f"{space}for {name} in {kind}:"]
        if kind == "while":
            test = f"{name} < {self._draw.randint(1, 6)} and {self._condition()}"
            lines = [f"{space}{name} = 0", f"{space}while {test}:", f"{space}    {name} += 1"]
        lines += self._block(depth - 1, True, level + 1)
        lines += [f"{space}    a = (a + {name}) % 17"] * (self._draw.random() < 0.4)
        if self._draw.random() < 0.25:
            lines += [f"{space}else:", *self._block(depth - 1, in_loop, level + 1)]
        return lines


@pytest.mark.parametrize("seed", program_seeds(8, 200))
def test_a_recorded_program_computes_what_eager_code_does(seed: int) -> None:
    source, name = Writer(seed).source(), f"<random program {seed}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {"tf": tf, "__name__": "random_program"}
    exec(compile(source, name, "exec"), names)
    python = names["program"]
    compiled = tf.function(python)
    xs = tf.constant([3, 1, 4, 1, 5, 9, 2, 6, 5][: 3 if seed % 2 else 9])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (7, 0, -3, 12, 4):
            x = tf.constant(value)
            found, wanted = compiled(x, xs), python(x, xs)
            assert [int(one) for one in found] == [int(one) for one in wanted], source
    assert not compiled.explain().eager_calls
