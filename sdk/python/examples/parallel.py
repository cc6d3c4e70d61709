"""Tries several fixes at once, each in a fork of one prepared sandbox, and says which one works."""

import asyncio

import skerry

CANDIDATES = ["a - b", "a + b", "a * b"]


async def attempt(sandbox: skerry.AsyncSandbox, candidate: str) -> None:
    async with sandbox:
        await sandbox.files.write("sum.py", f"def add(a, b):\n    return {candidate}\n")
        result = await sandbox.exec("python3 test.py")
        print(f"candidate {candidate}: {'works' if result.exit_code == 0 else 'fails'}")


async def main() -> None:
    async with skerry.AsyncSkerry() as client, await client.create(timeout_minutes=10) as prepared:
        await prepared.files.write("test.py", "from sum import add\nassert add(2, 3) == 5\n")
        fork = await prepared.fork(len(CANDIDATES))
        await asyncio.gather(*map(attempt, fork.sandboxes, CANDIDATES))


asyncio.run(main())
