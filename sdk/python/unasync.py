"""Makes skerry/_sync of skerry/_async: the same client without asyncio.

    python3 unasync.py            writes it
    python3 unasync.py --check    fails where it is not what it would write
"""

from __future__ import annotations

import pathlib
import re
import sys

PACKAGE = pathlib.Path(__file__).parent / "skerry"
NOTE = "# Made of ../_async by unasync.py: do not edit.\n"
WORDS = [
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\basync_(sleep|chunks)\b", r"\1"),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\baclose\b", "close"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"written once for asyncio; unasync.py makes the other one of it", "without asyncio"),
]


def without_async(text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return NOTE + text


def main(args: list[str]) -> int:
    status = 0
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        target = PACKAGE / "_sync" / source.name
        text = without_async(source.read_text())
        if target.exists() and target.read_text() == text:
            continue
        if args == ["--check"]:
            print(f"{target.name} is not what unasync.py makes of it", file=sys.stderr)
            status = 1
            continue
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
