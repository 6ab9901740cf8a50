"""docs/tensorflow.md: which names of TensorFlow and Keras there are, and what else is offered.

python ci/tensorflow_page.py           write the page
python ci/tensorflow_page.py --check   fail if the page differs, or if a name has no sentence

The names are in ci/tensorflow-names.txt. What is said about a name that is absent is what the
AttributeError says: tapegrad/absent.py and tapegrad/keras/absent.py.
"""

from __future__ import annotations

import argparse
import importlib
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "ci" / "tensorflow-names.txt"
PAGE = ROOT / "docs" / "tensorflow.md"
HEAD = """# Names of TensorFlow and Keras

`python ci/tensorflow_page.py` writes this page. It looks up every public name of TensorFlow 2.21 in
`tapegrad`, and every public name of Keras 3.15 in `tapegrad.keras`. `compat.v1`, `raw_ops`, `tpu`
and `lite` are not listed name by name. The page says whether a name is there; the other pages say
how it behaves ([tape](tape.md), [function](function.md), [keras](keras.md), [text](text.md)). For a
name that is absent, it says what the AttributeError says.

`tf.compat.v1` has the names above, those that have only moved since, and the older functions that
need no graph: losses, optimizers of functions, resizing, CTC, logging, files, iterators. Sessions
take settings and run nothing.

With `KERAS_BACKEND=tapegrad` and Keras installed, `tapegrad.keras` is Keras itself, with all of its
names ([keras-backend.md](keras-backend.md)).

NumPy functions of tensors return tensors, so that NumPy code has gradients. Where NumPy insists on
an array, pass `x.numpy()`: `np.random.choice(2, p=np.squeeze(probs))` may refuse a tensor of
float32, because NumPy allows for its rounding only if `p` is an array.
"""


def names() -> list[str]:
    """Return the names that are looked up."""
    lines = NAMES.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def missing(name: str) -> str | None:
    """Return None for a name that exists, or what the error says after its first sentence."""
    first, _, rest = name.partition(".")
    place: Any = importlib.import_module("tapegrad")
    parts = name.split(".")
    if first == "keras":
        # Not `tapegrad.keras`, which is Keras itself if that is installed and chosen.
        place, parts = importlib.import_module("tapegrad.keras"), rest.split(".")
    for part in parts:
        try:
            place = getattr(place, part)
        except AttributeError as error:
            return _reason(str(error), part)
    return None


def _reason(message: str, part: str) -> str:
    for mark in (f"{part!r}. ", f"{part!r}.", f"{part!r}"):
        _, found, sentence = message.partition(mark)
        if found:
            return sentence.strip()
    return ""


def by_module(found: Mapping[str, str | None]) -> dict[str, dict[str, str | None]]:
    """Return the names of each module, those of the package itself first."""
    modules: dict[str, dict[str, str | None]] = defaultdict(dict)
    for name, reason in found.items():
        modules[name.rpartition(".")[0]][name] = reason
    return {module: modules[module] for module in sorted(modules)}


def section(module: str, entries: Mapping[str, str | None]) -> Iterable[str]:
    """Yield the lines about one module."""
    title = module if module.startswith("keras") else f"tf.{module}".rstrip(".")
    there = [name.rpartition(".")[2] for name, reason in entries.items() if reason is None]
    absent: dict[str, list[str]] = defaultdict(list)
    for name, reason in entries.items():
        if reason is not None:
            absent[reason].append(name.rpartition(".")[2])
    yield f"\n### {title}: {len(there)} of {len(entries)}\n"
    if there:
        listed = " ".join(f"`{name}`" for name in there)
        yield "\n".join(textwrap.wrap(f"yes: {listed}", 105, break_on_hyphens=False))
    if absent:
        yield "\n| no | why, or what there is instead |\n| --- | --- |"
        for reason, short in absent.items():
            yield f"| {' '.join(f'`{name}`' for name in short)} | {reason} |"


def counts(found: Mapping[str, str | None]) -> list[str]:
    """Return a table of how many names there are."""
    rows = ["\n| | names | yes | no |", "| --- | --- | --- | --- |"]
    kinds = {
        "TensorFlow": {n: r for n, r in found.items() if not n.startswith("keras.")},
        "Keras": {n: r for n, r in found.items() if n.startswith("keras.")},
    }
    for kind, part in kinds.items():
        there = sum(reason is None for reason in part.values())
        rows.append(f"| {kind} | {len(part):,} | {there:,} | {len(part) - there:,} |")
    return rows


def page(found: Mapping[str, str | None]) -> str:
    """Return the text of the page."""
    modules = by_module(found)
    lines = [HEAD.rstrip(), *counts(found)]
    for kind, is_keras in (("TensorFlow", False), ("Keras", True)):
        lines.append(f"\n## {kind}")
        for module, entries in modules.items():
            if module.startswith("keras") == is_keras:
                lines.extend(section(module, entries))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Write docs/tensorflow.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    check = parser.parse_args().check
    found = {name: missing(name) for name in names()}
    silent = [name for name, reason in found.items() if reason == ""]
    if silent:
        print(f"No rule in tapegrad/absent.py or tapegrad/keras/absent.py: {', '.join(silent)}")
        return 1
    text = page(found)
    if check:
        is_current = PAGE.exists() and PAGE.read_text("utf-8") == text
        if not is_current:
            print("docs/tensorflow.md is not current. Run: python ci/tensorflow_page.py")
        return 0 if is_current else 1
    PAGE.write_text(text, "utf-8")
    print("\n".join(counts(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
