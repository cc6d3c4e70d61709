"""What is parsed: event streams and WebSocket frames, cut at every place; and what must stay as it is."""

from __future__ import annotations

import inspect
import pathlib
import subprocess
import sys
import unittest

import skerry
from skerry import _frames as frames
from skerry._output import Collector, _whole_prefix, _whole_suffix
from skerry._retry import back_off, retry_after
from skerry._sse import EventParser
from skerry._types import OPERATIONS

PACKAGE = pathlib.Path(skerry.__file__).parent


class EventStreams(unittest.TestCase):
    TEXT = (
        ": comment 😀\n\nevent: a\ndata: 1\nid: 7\n\ndata: two\r\ndata:lines\r\n\r\nevent: nothing\n\n"
        "unknown: x\ndata\n\nevent: c\ndata: tail"
    ).encode()
    EVENTS = [("a", "1", "7"), ("message", "two\nlines", "7"), ("message", "", "7")]

    def test_wherever_they_are_cut(self) -> None:
        for at in range(len(self.TEXT) + 1):
            parser = EventParser()
            found = parser.push(self.TEXT[:at]) + parser.push(self.TEXT[at:])
            self.assertEqual([tuple(event) for event in found], self.EVENTS, at)

    def test_without_a_bound_are_refused(self) -> None:
        parser = EventParser()
        with self.assertRaises(skerry.ProtocolError):
            for _ in range(70):
                parser.push(b"x" * (1 << 20))


def server_frame(opcode: int, payload: bytes, final: bool = True) -> bytes:
    length = len(payload)
    if length < 126:
        head = bytes([length])
    elif length < 1 << 16:
        head = b"\x7e" + length.to_bytes(2, "big")
    else:
        head = b"\x7f" + length.to_bytes(8, "big")
    return bytes([(0x80 if final else 0) | opcode]) + head + payload


class Frames(unittest.TestCase):
    def test_ours_are_masked(self) -> None:
        for length in (0, 1, 3, 125, 126, 65535, 65536):
            payload = bytes(i * 7 % 256 for i in range(length))
            frame = frames.encode_frame(frames.BINARY, payload, b"\1\2\3\4")
            at = len(frame) - length
            self.assertEqual((frame[0], frame[1] & 0x80, frame[at - 4 : at]), (0x82, 0x80, b"\1\2\3\4"))
            self.assertEqual(bytes(byte ^ b"\1\2\3\4"[i % 4] for i, byte in enumerate(frame[at:])), payload)

    def test_theirs_wherever_they_are_cut(self) -> None:
        stream = b"".join([
            server_frame(1, b"hello"), server_frame(2, b"pie", False), server_frame(9, b"?"), server_frame(0, b"ces"),
            server_frame(8, b"\x0f\xa1"), server_frame(2, bytes(300)),
        ])  # fmt: skip
        expected = [(1, b"hello"), (9, b"?"), (2, b"pieces"), (8, b"\x0f\xa1"), (2, bytes(300))]
        for at in range(len(stream) + 1):
            parser = frames.FrameParser()
            self.assertEqual(parser.push(stream[:at]) + parser.push(stream[at:]), expected, at)
        self.assertEqual(frames.FrameParser().push(server_frame(2, bytes(70_000)))[0].payload, bytes(70_000))
        self.assertEqual((frames.close_code(b"\x0f\xa1"), frames.close_code(b"")), (4001, 1005))

    def test_what_is_refused(self) -> None:
        bad = [
            frames.encode_frame(1, b"a", b"abcd"), b"\xc1\0", server_frame(0, b"a"),
            server_frame(1, b"a", False) + server_frame(1, b"b"), server_frame(9, b"a", False),
            server_frame(9, bytes(126)), b"\x82\x7f\0\0\xff\0\0\0\0\0",
        ]  # fmt: skip
        for data in bad:
            with self.assertRaises(skerry.ProtocolError, msg=data[:10]):
                frames.FrameParser().push(data)


class Output(unittest.TestCase):
    def test_is_kept_by_both_ends_whatever_its_pieces(self) -> None:
        whole = bytes(range(200))
        for size in (1, 3, 7, 50, 200):
            for most in (0, 1, 10, 199, 200, 300):
                kept = Collector(most)
                for at in range(0, 200, size):
                    kept.add(whole[at : at + size])
                head = min(200, (most + 1) // 2)
                tail = min(200 - head, most // 2)
                self.assertEqual(kept.raw, whole[:head] + whole[200 - tail :], (size, most))
                self.assertEqual(kept.left_out, 200 - head - tail)

    def test_characters_are_not_cut(self) -> None:
        data = "aé€😀".encode()
        for at in range(len(data) + 1):
            _whole_prefix(data[:at]).decode()
            _whole_suffix(data[at:]).decode()

    def test_waits_have_bounds(self) -> None:
        self.assertTrue(all(0.1 <= back_off(0) <= 0.2 and 2.5 <= back_off(5000) <= 5 for _ in range(100)))
        given = ["2", "99999", "soon", "-1", None]
        self.assertEqual([retry_after(one) for one in given], [2, 30, None, None, None])


class WhatStays(unittest.TestCase):
    def test_the_client_of_sockets_is_made_of_the_other(self) -> None:
        script = PACKAGE.parent / "unasync.py"
        self.assertEqual(subprocess.run([sys.executable, str(script), "--check"]).returncode, 0, "run unasync.py")

    def test_the_readme_shows_an_example_that_runs(self) -> None:
        example = (PACKAGE.parent / "examples/quick.py").read_text()
        self.assertIn(f"```python\n{example}```", (PACKAGE.parent / "README.md").read_text())

    def test_methods_take_what_operations_take(self) -> None:
        """A new argument of the server's is missed here, until its method takes it."""
        own = {"id", "exec_id", "cursor", "path", "from", "as", "sandbox_id", "terminal_id", "background", "stdin_base64", "encoding"}
        for method, operation in [
            (skerry.Skerry.create, "create_sandbox"), (skerry.Sandbox.exec, "exec"), (skerry.Sandbox.start, "exec"),
            (skerry.Sandbox.fork, "fork_sandbox"), (skerry.Sandbox.terminal, "open_terminal"),
            (skerry.Sandbox.expose, "expose_port"), (skerry.Sandbox.change_egress, "change_egress"),
            (skerry.Files.write, "write_file"), (skerry.Files.mkdir, "make_directory"),
            (skerry.Files.move, "move_file"), (skerry.Files.remove, "remove_file"),
            (skerry.Files.write_tree, "write_tree"), (skerry.Skerry.sandboxes, "list_sandboxes"),
            (skerry.Skerry.past_events, "list_events"), (skerry.Skerry.usage, "get_usage"),
        ]:  # fmt: skip
            takes = set(inspect.signature(method).parameters)
            if method is skerry.Sandbox.start:
                takes.add("max_output_bytes")  # of the result, which it has none of
            self.assertEqual(set(OPERATIONS[operation].args) - own - takes, set(), operation)


if __name__ == "__main__":
    unittest.main()
