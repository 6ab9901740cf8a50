"""Compile a share of the CUDA kernels for GPU generations, and record the counts.

    python ci/kernel_architectures.py 75 120 --share 10

It needs the packages of the extra `dev`, and no GPU. The counts go to `ci/support.json`, from which
`ci/support_page.py` writes a page.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import time
from pathlib import Path
from typing import Any
from zlib import crc32

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from tests.house import kernel_record, nvrtc  # noqa: E402
from tests.house.test_kernels_compile import MODULES  # noqa: E402

RECORD = ROOT / "ci" / "support.json"


def compiled(architecture: int, share: int) -> dict[str, Any]:
    """Compile one source in `share` of each module; return the counts and what failed."""
    start, counts = time.monotonic(), {"sources": 0, "compiled": 0, "spilling": 0}
    failures = []
    for module in MODULES:
        for source in kernel_record.sources_of(module):
            counts["sources"] += 1
            if crc32(source.text.encode()) % share:
                continue
            try:
                spills = nvrtc.spills_of(source.text, source.options, architecture)
            except SyntaxError as error:
                failures.append(f"{module} {source.label}: {str(error).splitlines()[0]}")
                continue
            counts["compiled"] += 1
            counts["spilling"] += bool(spills)
    seconds = round(time.monotonic() - start)
    date = dt.datetime.now(dt.UTC).date().isoformat()
    return {**counts, "failed": failures, "share": share, "date": date, "seconds": seconds}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("architectures", nargs="+", type=int, help="such as 75 or 120")
    parser.add_argument("--share", type=int, default=10, help="compile one source in so many")
    options = parser.parse_args(argv)
    for architecture in options.architectures:
        found = compiled(architecture, options.share)
        record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
        record.setdefault("kernels", {})[str(architecture)] = found
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"sm_{architecture}: {found['compiled']} compiled, {len(found['failed'])} failed")
        for line in found["failed"]:
            print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
