"""Against a real daemon and a real sandbox: tests/sdk/with-daemon.mjs says where it is."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import threading
import unittest
from typing import Any, List
from urllib.parse import urlsplit

import skerry

URL = os.environ.get("SKERRY_URL", "")
EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


class Cutter:
    """Between client and daemon: cuts connections after so many bytes of answer."""

    def __init__(self, most: int) -> None:
        self._most, self.cuts = most, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            parts = urlsplit(URL)
            far = socket.create_connection((str(parts.hostname), int(parts.port or 80)))
            for source, target, most in ((near, far, 0), (far, near, self._most)):
                threading.Thread(target=self._pass, args=(source, target, most), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, most: int) -> None:
        passed = 0
        try:
            while True:
                data = source.recv(4096)
                if not data:
                    break
                target.sendall(data)
                passed += len(data)
                if most and passed > most:
                    self.cuts += 1
                    break
        except OSError:
            pass  # the other direction has ended it
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    def close(self) -> None:
        self._listener.close()


@unittest.skipUnless(URL, "no SKERRY_URL: run it by tests/run --suite sdk")
class Live(unittest.TestCase):
    client: skerry.Skerry
    sandbox: skerry.Sandbox

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = skerry.Skerry()
        cls.sandbox = cls.client.create(timeout_minutes=30, labels={"suite": "python"})

    @classmethod
    def tearDownClass(cls) -> None:
        cls.sandbox.destroy()
        cls.client.close()

    def test_commands(self) -> None:
        seen: List[str] = []
        result = self.sandbox.exec(
            "echo one; sleep 0.3; echo two; echo oh >&2; cat; exit 3", stdin="three\n", on_stdout=seen.append
        )
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("one\ntwo\nthree\n", "oh\n", 3))
        self.assertEqual("".join(seen), result.stdout)
        self.assertGreater(len(seen), 1)
        self.assertEqual(self.sandbox.exec("cat", stdin=bytes(range(256))).stdout_raw, bytes(range(256)))
        with self.assertRaises(skerry.CommandError):
            self.sandbox.exec("echo no >&2; false", check=True)
        with self.assertRaises(skerry.ApiError) as caught:
            self.sandbox.exec("true", cwd="/nowhere")
        self.assertEqual((caught.exception.code, caught.exception.status), ("cwd_not_found", 422))
        self.assertTrue(self.sandbox.exec("sleep 100", timeout_ms=300).timed_out)

    def test_a_connection_that_is_cut_again_and_again(self) -> None:
        cutter = Cutter(20_000)
        self.addCleanup(cutter.close)
        client = skerry.Skerry(cutter.url)
        self.addCleanup(client.close)
        command = "for i in $(seq 20); do seq $i 20 2000 | tee /dev/stderr; sleep 0.05; done"
        result = client.attach(self.sandbox.id).exec(command)
        expected = "".join(f"{n}\n" for i in range(1, 21) for n in range(i, 2001, 20))
        self.assertEqual(result.stdout, expected)
        self.assertEqual(result.stderr, expected)
        self.assertGreater(cutter.cuts, 0)

    def test_a_handle(self) -> None:
        cat = self.sandbox.start("cat; echo end", stdin_open=True)
        cat.write("hello ")
        cat.write(b"world\n")
        self.assertTrue(cat.poll()["running"])
        cat.close_stdin()
        self.assertEqual(cat.wait().stdout, "hello world\nend\n")
        again = self.sandbox.command(cat.exec_id).output(stdout=6)
        self.assertEqual("".join(chunk.text for chunk in again), "world\nend\n")
        sleeper = self.sandbox.start("sleep 1000")
        sleeper.kill()
        self.assertEqual(sleeper.wait().signal, "SIGKILL")
        listed = {one["exec_id"]: one["command"] for one in self.sandbox.commands()}
        self.assertEqual(listed[sleeper.exec_id], "sleep 1000")
        self.assertEqual(sleeper.poll(wait_ms=1000)["exit_code"], 137)

    def test_files_and_trees(self) -> None:
        files = self.sandbox.files
        data = bytes(i * 7 % 256 for i in range(300_000))
        files.mkdir("d/e", parents=True)
        entry = files.write("d/e/f", (data[at : at + 1000] for at in range(0, len(data), 1000)), mode="0600")
        self.assertEqual((entry["size"], entry["mode"], entry["type"]), (300_000, "0600", "file"))
        self.assertEqual(files.read("d/e/f"), data)
        self.assertEqual(b"".join(files.stream("d/e/f", start=1000, end=1010)), data[1000:1010])
        files.move("d/e/f", "d/g")
        self.assertEqual([(one["name"], one["type"]) for one in files.list("d")], [("e", "directory"), ("g", "file")])
        self.assertFalse(files.exists("d/e/f"))
        with self.assertRaises(skerry.NotFoundError):
            files.read("d/e/f")
        with self.assertRaises(skerry.ConflictError):
            files.write("d/g", "x", overwrite=False)
        with self.assertRaises(skerry.ApiError):
            files.write("nowhere/g", data)
        self.assertEqual(files.write_tree("copy", files.read_tree("d"), parents=True)["bytes"], 300_000)
        self.assertEqual(files.read("copy/g"), data)
        files.remove("copy", recursive=True)
        self.assertEqual(files.stat("d/g")["size"], 300_000)

    def test_a_terminal(self) -> None:
        with self.sandbox.terminal(cols=90, rows=20, command="stty size; cat") as terminal:
            terminal.read_until("20 90\r\n")
            terminal.write("hello\n")
            terminal.read_until("hello\r\nhello\r\n")
            self.assertIn(terminal.id, [one["terminal_id"] for one in self.sandbox.terminals()])
        again = self.sandbox.terminal(terminal_id=terminal.id, from_offset=terminal.offset)
        again.write("again\n\x04")
        self.assertTrue(again.read_until("again\r\nagain\r\n").startswith(b"again"))
        self.assertEqual(again.wait().exit_code, 0)
        with self.assertRaises(skerry.NotFoundError):
            self.sandbox.terminal(terminal_id="term_0000000000000000")

    def test_pause_fork_and_events(self) -> None:
        self.sandbox.exec("echo kept >state")
        self.assertEqual(self.sandbox.pause()["status"], "paused")
        self.assertEqual(self.sandbox.exec("cat state").stdout, "kept\n")  # resumes it
        fork = self.sandbox.fork()
        self.assertIn("clock", fork.report["distinct"])
        with fork.sandboxes[0] as child:
            self.assertEqual(child.info["parent_id"], self.sandbox.id)
            self.assertEqual(child.exec("cat state").stdout, "kept\n")
        with self.assertRaises(skerry.SandboxEndedError):
            child.exec("true")
        types = []
        events = self.sandbox.events(cursor=0)
        for event in events:
            types.append(event["type"])
            if event["type"] == "sandbox_forked":
                break
        events.close()
        for kind in ("sandbox_created", "exec_started", "sandbox_paused", "sandbox_resumed"):
            self.assertIn(kind, types)

    def test_the_account(self) -> None:
        self.assertIn(self.sandbox.id, [one.id for one in self.client.sandboxes(label="suite=python")])
        self.assertIn("base", [image["name"] for image in self.client.images()])
        self.assertTrue(self.client.limits())
        self.assertIn("small", [size["name"] for size in self.client.prices()["sizes"]])
        self.assertIn("balance_microcredits", self.client.usage(days=1))
        self.assertEqual(self.sandbox.stats()["id"], self.sandbox.id)
        self.client.create_network("sdk-python")
        self.assertIn("sdk-python", [network["name"] for network in self.client.networks()])
        self.client.remove_network("sdk-python")
        before = self.sandbox.refresh()["expires_at"]
        self.assertGreater(self.sandbox.extend(1), before)
        with self.assertRaises(skerry.NotFoundError):
            self.client.attach("sbx_000000000000")
        with self.assertRaises(skerry.DeniedError):
            skerry.Skerry(key="sk_wrong").limits()

    def test_with_asyncio(self) -> None:
        async def main() -> Any:
            async with skerry.AsyncSkerry() as client:
                sandbox = await client.attach(self.sandbox.id)
                results = await asyncio.gather(*(sandbox.exec(f"echo {n}") for n in range(8)))
                await sandbox.files.write("async", b"x" * 100_000)
                async with await sandbox.terminal(command="echo hello") as terminal:
                    text = b"".join([data async for data in terminal])
                return [one.stdout for one in results], len(await sandbox.files.read("async")), text

        outputs, size, text = asyncio.run(main())
        self.assertEqual((outputs, size, text), ([f"{n}\n" for n in range(8)], 100_000, b"hello\r\n"))

    def test_the_examples(self) -> None:
        for name, expected in (("quick", "42"), ("parallel", "candidate a + b: works")):
            ran = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], stdout=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(ran.returncode, 0, name)
            self.assertIn(expected, ran.stdout)


if __name__ == "__main__":
    unittest.main()
