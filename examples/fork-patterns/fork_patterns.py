"""Candidate fixes at once, each in a fork of one warm sandbox: what main.mjs does, in Python.

    SKERRY_URL=… SKERRY_API_KEY=… python3 fork_patterns.py [NUMBER…]      of the patches in candidates/
"""

import asyncio
import io
import re
import sys
import tarfile
from pathlib import Path
from typing import List, NamedTuple

import skerry

FOLDER = Path(__file__).resolve().parent
CWD = "project"  # in the sandbox, below its home


class Attempt(NamedTuple):
    sandbox: skerry.AsyncSandbox
    name: str
    passes: bool
    tests: int
    failures: int
    diff: str


async def set_up(sandbox: skerry.AsyncSandbox) -> None:
    """Puts the project into a sandbox and makes it ready: history, database, and a server that runs."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(FOLDER / CWD, ".", filter=lambda entry: None if "__pycache__" in entry.name else entry)
    await sandbox.files.write_tree(CWD, archive.getvalue(), parents=True)
    await sandbox.exec("sh setup.sh", cwd=CWD, check=True)
    await sandbox.start("exec python3 -m shop.server", cwd=CWD, timeout_ms=3_600_000)
    await sandbox.exec(
        "until (: </dev/tcp/127.0.0.1/8000) 2>&-; do sleep 0.1; done", timeout_ms=120_000, check=True
    )


async def attempt(sandbox: skerry.AsyncSandbox, patch: Path) -> Attempt:
    """Applies a patch and runs the tests."""
    await sandbox.exec("git apply -", cwd=CWD, stdin=patch.read_text(), check=True)
    # One that never ends has lost as well.
    result = await sandbox.exec("python3 -m unittest", cwd=CWD, timeout_ms=300_000)
    diff = await sandbox.exec("git diff", cwd=CWD, check=True)
    tests = sum(map(int, re.findall(r"^Ran (\d+)", result.stderr, re.MULTILINE)))
    failures = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", result.stderr)))
    return Attempt(sandbox, patch.stem, result.exit_code == 0, tests, failures, diff.stdout)


async def try_all(warm: skerry.AsyncSandbox, patches: List[Path]) -> bool:
    fork = await warm.fork(len(patches), name="candidate")
    try:
        attempts = await asyncio.gather(*map(attempt, fork.sandboxes, patches))
        for one in attempts:
            passes = "passes" if one.passes else "fails "
            print(f"{passes}  {one.tests - one.failures} of {one.tests} tests  {one.name}")
        good = sorted((one for one in attempts if one.passes), key=lambda one: len(one.diff))
        if not good:
            print("\nno candidate passes")
            return False
        winner = good[0]
        await asyncio.gather(*(one.sandbox.destroy() for one in attempts if one is not winner))
        print(f"\nwinner: {winner.name}\n\n{winner.diff}")
        await winner.sandbox.exec(
            'git commit --quiet --all --message "$MESSAGE"',
            cwd=CWD, env={"MESSAGE": f"Fix split(): {winner.name}"}, check=True,
        )
        print((await winner.sandbox.exec("git log --oneline", cwd=CWD, check=True)).stdout)
        return True
    finally:
        await asyncio.gather(*(sandbox.destroy() for sandbox in fork.sandboxes))


async def main(numbers: List[str]) -> int:
    patches = sorted((FOLDER / "candidates").glob("*.patch"))
    patches = [patch for patch in patches if not numbers or patch.name.split("-")[0] in numbers]
    async with skerry.AsyncSkerry() as client:
        async with await client.create(timeout_minutes=15, egress=[], labels={"example": "fork-patterns"}) as warm:
            await set_up(warm)
            return 0 if await try_all(warm, patches) else 1


sys.exit(asyncio.run(main(sys.argv[1:])))
