"""The picture of the README: what a tape records, and the gradients that come back.

python ci/pages/picture.py            draw docs/images/tape.svg
python ci/pages/picture.py --check    say whether it is up to date

The numbers in it are computed by tapegrad.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends")]

import tapegrad as tf  # noqa: E402

FILE = ROOT / "docs" / "images" / "tape.svg"
WIDTH, HEIGHT, TOP, BOX, GAP = 860, 236, 88, 112, 74
FORWARD, BACKWARD, INK, PAPER = "#1f6fb2", "#c2571a", "#1c2530", "#ffffff"


@dataclass(frozen=True)
class Step:
    """A value of the program: how it is written, what it is, and the gradient by it."""

    label: str
    value: str
    gradient: str


def steps() -> list[Step]:
    """Run the first example of the README and return its values, the input first."""
    w, x = tf.Variable([[0.1], [0.2]]), tf.constant([[3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        product = x @ w
        activation = tf.tanh(product)
        square = activation**2
        loss = tf.reduce_sum(square)
    values = {"x @ w": product, "tanh": activation, "** 2": square, "reduce_sum": loss}
    return [
        Step(label, _numbers(value), _numbers(tape.gradient(loss, value)))
        for label, value in {"w": w, **values}.items()
    ]


def _numbers(values: tf.Tensor) -> str:
    return ", ".join(f"{number:.3g}" for number in values.numpy().ravel())


def draw(found: list[Step]) -> str:
    """Return the picture as SVG."""
    shapes = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="{PAPER}" stroke="#d5dbe1"/>',
        _text(24, 34, "with tf.GradientTape() as tape:", FORWARD, "start", 15),
        _text(24, HEIGHT - 18, "tape.gradient(loss, w)", BACKWARD, "start", 15),
    ]
    for place, step in enumerate(found):
        left = 24 + place * (BOX + GAP) - (0 if place == 0 else BOX - 64)
        shapes += _box(left, 64 if place == 0 else BOX, step)
        if place:
            shapes += _arrows(left, step, found[place - 1])
    body = "\n".join(shapes)
    title = "The tape records each operation; gradients flow back from the loss to w"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace">\n<title>{title}</title>\n'
        f"<defs>{_head('forward', FORWARD)}{_head('backward', BACKWARD)}</defs>\n{body}\n</svg>\n"
    )


def _box(left: int, width: int, step: Step) -> list[str]:
    frame = f'x="{left}" y="{TOP}" width="{width}" height="60" rx="8"'
    return [
        f'<rect {frame} fill="#eef4fa" stroke="{FORWARD}"/>',
        _text(left + width // 2, TOP + 36, step.label, INK, "middle", 15),
    ]


def _arrows(left: int, step: Step, before: Step) -> list[str]:
    start, end, middle = left - GAP + 4, left - 4, left - GAP // 2
    above, below = TOP + 20, TOP + 42
    return [
        _line(start, end, above, FORWARD, "forward"),
        _line(end, start, below, BACKWARD, "backward"),
        _text(middle, above - 10, before.value, FORWARD, "middle", 13),
        _text(middle, below + 22, before.gradient, BACKWARD, "middle", 13),
    ]


def _line(start: int, end: int, height: int, colour: str, head: str) -> str:
    return (
        f'<line x1="{start}" y1="{height}" x2="{end}" y2="{height}" stroke="{colour}" '
        f'stroke-width="2" marker-end="url(#{head})"/>'
    )


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


def _text(left: int, top: int, words: str, colour: str, anchor: str, size: int) -> str:
    return (
        f'<text x="{left}" y="{top}" fill="{colour}" text-anchor="{anchor}" '
        f'font-size="{size}">{words}</text>'
    )


def main(argv: list[str], file: Path = FILE) -> int:
    """Draw or check the picture; return 1 if the check finds it out of date."""
    fresh = draw(steps())
    if argv == ["--check"]:
        is_current = file.exists() and file.read_text(encoding="utf-8") == fresh
        if not is_current:
            print(f"{file.name} is out of date. Run: python ci/pages/picture.py")
        return int(not is_current)
    file.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
