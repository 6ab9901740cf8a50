"""Parsing of einsum equations: from text and shapes to one label per axis."""

from __future__ import annotations

from string import ascii_letters

from tapegrad.errors import ArgumentError, ShapeError

Shape = tuple[int, ...]


def read_equation(equation: str, shapes: list[Shape]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the output, with `...` expanded.

    >>> read_equation("ij,jk", [(2, 3), (3, 4)])
    (['ij', 'jk'], 'ik')
    """
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ArgumentError(
            f"einsum equation {equation!r} names {len(terms)} operands. Got {len(shapes)}."
        )
    _check_letters(equation, [*terms, output])
    spare = [letter for letter in ascii_letters if letter not in text]
    ranks = [len(s) - len(term.replace("...", "")) for term, s in zip(terms, shapes)]
    for term, rank, shape in zip(terms, ranks, shapes):
        if rank < 0 or (rank and "..." not in term):
            raise ShapeError(
                f"einsum equation {equation!r} has the term {term!r} for an operand of shape "
                f"{shape}, which has another number of axes."
            )
    longest = max(rank if "..." in term else 0 for term, rank in zip(terms, ranks))
    dots = "".join(spare[:longest])
    filled = [term.replace("...", dots[longest - rank :]) for term, rank in zip(terms, ranks)]
    result = output.replace("...", dots) if arrow else _implicit_output(left, dots)
    _check_sizes(equation, filled, shapes, result)
    return filled, result


def _check_letters(equation: str, terms: list[str]) -> None:
    for term in terms:
        rest = term.replace("...", "", 1)
        if rest and not (rest.isascii() and rest.isalpha()):
            raise ArgumentError(
                f"einsum equation {equation!r} must consist of letters, commas, one '->' and at "
                f"most one '...' per term. Got the term {term!r}."
            )


def _implicit_output(left: str, dots: str) -> str:
    """Return NumPy's implicit output: `...`, then the labels that occur once, sorted."""
    letters = left.replace("...", "").replace(",", "")
    return dots + "".join(sorted(label for label in set(letters) if letters.count(label) == 1))


def _check_sizes(equation: str, terms: list[str], shapes: list[Shape], output: str) -> None:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes):
        for label, n in zip(term, shape):
            if sizes.setdefault(label, n) != n and 1 not in (sizes[label], n):
                raise ShapeError(
                    f"einsum equation {equation!r} gives label {label!r} the lengths "
                    f"{sizes[label]} and {n}. Shapes: {', '.join(map(str, shapes))}."
                )
            sizes[label] = max(sizes[label], n)
    missing = [label for label in output if label not in sizes]
    if missing or len(set(output)) != len(output):
        raise ArgumentError(
            f"einsum output {output!r} must use each label once, and only labels of operands. "
            f"The equation was {equation!r}."
        )
