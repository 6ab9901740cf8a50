"""Print the lowest versions that pyproject.toml allows, as requirements for pip.

Only the libraries that the tests import: not the tools of the static checks, nor CUDA's packages.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("build", "mypy", "ruff")


def lowest(text: str) -> list[str]:
    """Return "name==version" for each lower bound in the text of a pyproject.toml."""
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    found = [_pin(requirement) for requirement in wanted if ";" not in requirement]
    return [pin for pin in found if pin.partition("==")[0] not in TOOLS]


def _pin(requirement: str) -> str:
    match = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement.replace(" ", ""))
    if match is None:
        raise SystemExit(f"{requirement!r} in pyproject.toml must have the form 'name>=version'.")
    return f"{match[1]}=={match[2]}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest((ROOT / "pyproject.toml").read_text("utf-8"))) + "\n")
