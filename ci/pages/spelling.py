"""The spelling of the pages.

python ci/pages/spelling.py    print the words that are in no dictionary

A word is right if it is in the English dictionary of pyspellchecker, if it is a name in the code of
this repository, or if words.txt has it: add terms of the field and names there.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from links import ROOT, pages, without_code
from spellchecker import SpellChecker

WORDS = Path(__file__).with_name("words.txt")
GENERATED = {"tensorflow.md", "functions.md", "oracles.md", "ecosystem.md"}
"""Pages that consist of names."""


@functools.cache
def known() -> frozenset[str]:
    """Return the words of words.txt in lower case."""
    return frozenset(WORDS.read_text(encoding="utf-8").lower().split())


@functools.cache
def dictionary() -> SpellChecker:
    """Return the English dictionary."""
    return SpellChecker(language="en", distance=1)


def prose(text: str) -> str:
    """Return what people read: no code, addresses, comments and file names.

    >>> prose("see [this page](a.md) or https://b.org or setup_x.py")
    'see [this page] or  or '
    """
    text = re.sub(r"<!-- \w+: begin.*?<!-- \w+: end -->", "", text, flags=re.DOTALL)  # figures
    text = without_code(text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"https?://\S+|\S*/\S*\w\.\w+|\w+\.(?:py|md|sh|json|html|svg|org)\b", "", text)
    # Words with underscores, digits or dots inside are names in code.
    return re.sub(r"\S*\w[_\d.=]\w\S*", "", text)


def words(text: str) -> Iterator[str]:
    """Yield the words of prose; names with capitals inside are left out.

    >>> list(words("NumPy's arrays aren't cut-off: CUDA"))
    ['arrays', 'cut', 'off']
    """
    for word in re.findall(r"[A-Za-z][A-Za-z']*", text):
        plain = re.sub(r"('s|'|n't|'re|'ll|'ve)$", "", word)
        if len(plain) > 2 and not re.search(r"\w[A-Z]", plain) and "n't" not in word:
            yield plain


def unknown(text: str) -> list[str]:
    """Return the words of a text that are in no dictionary, each once."""
    found = {word for word in words(prose(text)) if not is_known(word.lower())}
    return sorted(found)


def is_known(word: str) -> bool:
    """Whether a word, or what is left without a usual ending, is in a dictionary."""
    stems = [word, re.sub(r"s$", "", word), re.sub(r"ed$|es$", "", word), re.sub(r"d$", "", word)]
    return any(stem in known() or stem in dictionary() for stem in stems)


def main() -> int:
    """Print all unknown words; return 1 if there are any."""
    faults = 0
    for page in pages():
        if page.name in GENERATED:
            continue
        for word in unknown(page.read_text(encoding="utf-8")):
            faults += 1
            print(f"{page.relative_to(ROOT)}: {word}")
    if faults:
        print(f"{faults} words are in no dictionary. Mend them, or add them to {WORDS.name}.")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
