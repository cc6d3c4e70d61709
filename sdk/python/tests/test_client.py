"""Both clients against a scripted server: lost connections, refusals, answers that are none. Each test runs
with the client of sockets and with that of asyncio."""

from __future__ import annotations

import asyncio
import base64
import io
import unittest
from typing import Any, Callable, List

import skerry
from scripted import Peer, Request, ScriptedServer, event, exit_event, info

STARTED = event("started", {"exec_id": "exec_1"})


def out(offset: int, data: str) -> bytes:
    return event("stdout", {"offset": offset, "data": data})


def err(offset: int, data: str) -> bytes:
    return event("stderr", {"offset": offset, "data": data})


class Base(unittest.TestCase):
    def serve(self, script: Callable[[Request, Peer, int], None]) -> ScriptedServer:
        server = ScriptedServer(script)
        self.addCleanup(server.close)
        return server


class Sync(Base):
    """Drives the client of sockets. The methods are those that Async overrides."""

    def client(self, server: ScriptedServer, **options: Any) -> Any:
        client = skerry.Skerry(server.url, "sk_test", **options)
        self.addCleanup(client.close)
        return client

    def run_(self, value: Any) -> Any:
        return value

    def all(self, items: Any) -> List[Any]:
        return list(items)

    def sandbox(self, script: Callable[[Request, Peer, int], None], **options: Any) -> Any:
        server = self.serve(lambda request, peer, n: peer.json(200, info()) if n == 0 else script(request, peer, n - 1))
        sandbox = self.run_(self.client(server, **options).attach("sbx_1"))
        self.asked = lambda: server.requests[1:]
        return sandbox

    # ---- requests ----

    def test_errors_have_types(self) -> None:
        cases = [
            (401, "invalid_key", skerry.DeniedError), (403, "scope_denied", skerry.DeniedError),
            (402, "no_credit", skerry.LimitError), (404, "not_found", skerry.NotFoundError),
            (409, "name_taken", skerry.ConflictError), (410, "sandbox_ended", skerry.SandboxEndedError),
            (422, "limit_reached", skerry.LimitError), (429, "quota_reached", skerry.LimitError),
            (500, "snapshot_damaged", skerry.ApiError),
        ]  # fmt: skip
        server = self.serve(lambda request, peer, n: peer.problem(cases[n][0], cases[n][1]))
        client = self.client(server)
        for status, code, kind in cases:
            with self.assertRaises(kind) as caught:
                self.run_(client.attach("sbx_1"))
            error = caught.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.code, error.status, error.hint, error.request_id), (code, status, "do this", "req_1"))
            self.assertEqual(str(error), f"detail of {code} (do this)")

    def test_answers_that_are_none(self) -> None:
        bodies = [b"<h1>hello</h1>", b'{"id":"sbx', b"[]", b"null", b""]
        server = self.serve(lambda request, peer, n: peer.answer(200, bodies[n]))
        client = self.client(server)
        for _ in bodies:
            with self.assertRaises(skerry.ProtocolError):
                self.run_(client.attach("sbx_1"))
        self.assertEqual(len(server.requests), len(bodies))

    def test_what_is_no_http(self) -> None:
        answers = [b"hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20000,
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"]  # fmt: skip

        def script(request: Request, peer: Peer, n: int) -> None:
            peer.send(answers[n])
            peer.cut()

        client = self.client(self.serve(script), retries=0)
        for answer in answers:
            with self.assertRaises(skerry.ProtocolError, msg=answer[:40]):
                self.run_(client.attach("sbx_1"))

    def test_one_that_breaks_off(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            peer.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id":')
            peer.cut()

        with self.assertRaises(skerry.ConnectionLostError):
            self.run_(self.client(self.serve(script)).attach("sbx_1"))

    def test_refused_requests_are_repeated(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.problem(429, "rate_limited", Retry_After="0")
            elif n == 1:
                peer.problem(503, "overloaded", Retry_After="0")
            else:
                peer.json(200, {"id": "sbx_1", "expires_at": "later"})

        sandbox = self.sandbox(script)
        self.assertEqual(self.run_(sandbox.extend(15)), "later")
        self.assertEqual([request.body for request in self.asked()], [{"additional_minutes": 15}] * 3)

    def test_a_quota_is_not_repeated(self) -> None:
        server = self.serve(lambda request, peer, n: peer.problem(429, "quota_reached"))
        with self.assertRaises(skerry.LimitError):
            self.run_(self.client(server).create())
        self.assertEqual(len(server.requests), 1)

    def test_a_creation_is_repeated_with_its_key(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.cut()
            elif n == 1:
                peer.problem(409, "idempotency_in_progress")
            else:
                peer.json(201, info())

        server = self.serve(script)
        self.assertEqual(self.run_(self.client(server).create(size="tiny", egress=None)).id, "sbx_1")
        self.assertEqual(len({request.headers["idempotency-key"] for request in server.requests}), 1)
        self.assertEqual([request.body for request in server.requests], [{"size": "tiny", "egress": None}] * 3)

    def test_what_would_be_done_twice_is_not_repeated(self) -> None:
        sandbox = self.sandbox(lambda request, peer, n: peer.cut())
        for what in (lambda: sandbox.extend(1), sandbox.fork, lambda: sandbox.exec("true")):
            with self.assertRaises(skerry.ConnectionLostError):
                self.run_(what())
        self.assertEqual(len(self.asked()), 3)

    def test_readers_are_repeated_and_not_for_ever(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            peer.json(200, info()) if n == 2 else peer.answer(502, b"<html>", "text/html") if n < 2 else peer.cut()

        server = self.serve(script)
        client = self.client(server, retries=2)
        self.run_(client.attach("sbx_1"))
        self.assertEqual(len(server.requests), 3)
        with self.assertRaises(skerry.ConnectionLostError):
            self.run_(client.attach("sbx_1"))
        self.assertEqual(len(server.requests), 6)

    def test_a_server_that_is_not_there(self) -> None:
        server = ScriptedServer(lambda request, peer, n: None)
        server.close()
        with self.assertRaises(skerry.ConnectionLostError):
            self.run_(self.client(server, retries=1).limits())

    def test_arguments_have_their_places(self) -> None:
        sandbox = self.sandbox(lambda request, peer, n: peer.json(200, {"items": [], "next_cursor": None, "rules": None}))
        self.run_(sandbox.files.list("/tmp/a b&c"))
        self.run_(sandbox.change_egress(add=["example.com:443"]))
        self.run_(sandbox.set_egress(None))
        self.run_(sandbox.leave("a/../b"))
        asked = [(request.method, request.path, request.query, request.data) for request in self.asked()]
        self.assertEqual(asked, [
            ("GET", "/v1/sandboxes/sbx_1/files/list", {"path": "/tmp/a b&c", "limit": "1000"}, b""),
            ("POST", "/v1/sandboxes/sbx_1/egress", {}, b'{"add": ["example.com:443"]}'),
            ("PUT", "/v1/sandboxes/sbx_1/egress", {}, b'{"rules": null}'),
            ("DELETE", "/v1/networks/a%2F..%2Fb/members/sbx_1", {}, b""),
        ])  # fmt: skip
        self.assertTrue(all(request.headers["authorization"] == "Bearer sk_test" for request in self.asked()))

    def test_pages_are_turned(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            peer.json(200, {"items": [info(id=f"sbx_{n}")], "next_cursor": f"c{n}" if n < 2 else None})

        server = self.serve(script)
        found = self.all(self.client(server).sandboxes(label="task=42"))
        self.assertEqual([one.id for one in found], ["sbx_0", "sbx_1", "sbx_2"])
        self.assertEqual([request.query.get("cursor") for request in server.requests], [None, "c0", "c1"])

    # ---- commands ----

    def test_output_is_told_and_collected(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            raw = event("stdout", {"offset": 9, "data_base64": "/wA="})
            peer.stream(STARTED, b": heartbeat\n\n", out(0, "one\n"), err(0, "oh\n"), out(4, "😀\n"), raw, exit_event(exit_code=3))

        seen: List[str] = []
        sandbox = self.sandbox(script)
        result = self.run_(sandbox.exec("work", env={"A": "b"}, stdin="in", on_stdout=seen.append))
        self.assertEqual(seen, ["one\n", "😀\n", "\ufffd\0"])
        self.assertEqual((result.stdout, result.stderr), ("one\n😀\n\ufffd\0", "oh\n"))
        self.assertEqual(result.stdout_raw, "one\n😀\n".encode() + b"\xff\0")
        self.assertEqual((result.exit_code, result.exec_id, result.truncated), (3, "exec_1", False))
        self.assertEqual(self.asked()[0].body, {"command": "work", "env": {"A": "b"}, "stdin": "in"})

    def test_a_lost_stream_goes_on_and_no_byte_comes_twice(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.stream(STARTED, out(0, "one "), err(0, "warning\n"), out(4, "two "), cut=True)
            elif n == 1:
                peer.stream(b'event: started\ndata: {"exec_', cut=True)
            elif n == 2:
                peer.problem(503, "shutting_down", Retry_After="1")
            elif n == 3:
                peer.stream(STARTED, out(4, "two three "), err(0, "warning\nmore\n"), out(14, "four"), cut=True)
            else:
                peer.stream(STARTED, out(18, " five"), exit_event())

        seen: List[str] = []
        sandbox = self.sandbox(script)
        result = self.run_(sandbox.exec("work", on_stdout=seen.append))
        self.assertEqual((result.stdout, result.stderr), ("one two three four five", "warning\nmore\n"))
        self.assertEqual(seen, ["one ", "two ", "three ", "four", " five"])
        self.assertEqual(self.asked()[1].query, {"from_offset": "8", "from_stderr_offset": "8"})
        self.assertEqual(self.asked()[4].query, {"from_offset": "18", "from_stderr_offset": "13"})
        self.assertEqual(len(self.asked()), 5)

    def test_a_silent_stream_is_a_lost_one(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + STARTED + out(0, "a"))
                peer.file.read(1)  # until the client has had enough
            else:
                peer.stream(STARTED, out(1, "b"), exit_event())

        self.assertEqual(self.run_(self.sandbox(script, silence=0.2).exec("work")).stdout, "ab")

    def test_a_command_without_an_id_may_have_been_started(self) -> None:
        sandbox = self.sandbox(lambda request, peer, n: peer.stream(b"event: sta", cut=True))
        with self.assertRaisesRegex(skerry.ConnectionLostError, "may have been started"):
            self.run_(sandbox.exec("work"))
        self.assertEqual(len(self.asked()), 1)

    def test_after_a_while_it_is_given_up_with_its_id(self) -> None:
        sandbox = self.sandbox(lambda request, peer, n: peer.stream(STARTED, cut=True) if n == 0 else peer.cut(), reconnect=0.3)
        with self.assertRaises(skerry.ConnectionLostError) as caught:
            self.run_(sandbox.exec("work"))
        self.assertEqual(caught.exception.exec_id, "exec_1")

    def test_the_end_of_the_sandbox(self) -> None:
        gone = event("error", {"status": 410, "code": "sandbox_ended", "detail": "it has ended"})
        with self.assertRaises(skerry.SandboxEndedError):
            self.run_(self.sandbox(lambda request, peer, n: peer.stream(STARTED, gone)).exec("work"))

    def test_events_that_are_none(self) -> None:
        bad = [b'event: stdout\ndata: {"offset"\n\n', b"event: stdout\ndata: 7\n\n", event("stdout", {"data": "a"}),
               event("stdout", {"offset": -1, "data": "a"}), event("stdout", {"offset": 0}),
               event("stdout", {"offset": 0, "data_base64": "*"})]  # fmt: skip
        sandbox = self.sandbox(lambda request, peer, n: peer.stream(STARTED, bad[n], exit_event()))
        for text in bad:
            with self.assertRaises(skerry.ProtocolError, msg=text):
                self.run_(sandbox.exec("work"))
        self.assertEqual(len(self.asked()), len(bad))

    def test_gaps_and_bounds(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                gap = event("gap", {"stream": "stdout", "from": 4, "to": 1004})
                peer.stream(STARTED, out(0, "head"), gap, out(1004, "tail"), exit_event())
            else:
                peer.stream(STARTED, *(out(i * 4, "😀") for i in range(300)), exit_event())

        gaps: List[Any] = []
        sandbox = self.sandbox(script)
        result = self.run_(sandbox.exec("work", on_gap=gaps.append))
        self.assertEqual(gaps, [skerry.OutputGap("stdout", 4, 1004)])
        self.assertEqual((result.stdout, result.truncated), ("head\n… 1000 bytes were left out …\ntail", True))
        result = self.run_(sandbox.exec("work", max_output_bytes=101))
        self.assertEqual(len(result.stdout_raw), 101)
        self.assertEqual(result.stdout, "😀" * 12 + "\n… 1099 bytes were left out …\n" + "😀" * 12)

    def test_check(self) -> None:
        sandbox = self.sandbox(lambda request, peer, n: peer.stream(STARTED, err(0, "a\nno file\n"), exit_event(exit_code=2)))
        with self.assertRaisesRegex(skerry.CommandError, "exit code 2: no file") as caught:
            self.run_(sandbox.exec("work", check=True))
        self.assertEqual(caught.exception.result.exit_code, 2)

    def test_a_handle(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.json(200, {"exec_id": "exec_1", "running": True})
            elif n == 2:
                peer.problem(503, "input_full", Retry_After="1")
            elif n <= 5:
                peer.json(200, {"exec_id": "exec_1", "accepted_bytes": 1})
            else:
                peer.stream(STARTED, out(0, "all"), exit_event())

        data = bytes(i % 256 for i in range(300_000))
        command = self.run_(self.sandbox(script).start("work", stdin_open=True))
        self.run_(command.write(data))
        self.run_(command.close_stdin())
        self.run_(command.kill())
        self.assertEqual([one.text for one in self.all(command.output())], ["all"])
        first, refused, second, close, kill = [request.body for request in self.asked()[1:6]]
        self.assertEqual(refused, second)
        self.assertEqual(base64.b64decode(first["data_base64"]) + base64.b64decode(second["data_base64"]), data)
        self.assertEqual((close, kill), ({"close": True}, {"signal": "SIGKILL"}))

    # ---- files, events, terminals ----

    def test_files(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            if request.method == "GET":
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + (b"whole!" if n == 0 else b"who"))
                if n > 0:
                    peer.cut()
            elif n == 2:
                peer.cut()
            else:
                peer.json(201, {"path": "f"})

        files = self.sandbox(script).files
        self.assertEqual(self.run_(files.read("f")), b"whole!")
        with self.assertRaises(skerry.ConnectionLostError):
            self.run_(files.read("f"))
        big = b"x" * 100_000
        for data in (b"abc", "text", io.BytesIO(big), [b"p", b"", b"q"], big):
            self.run_(files.write("f", data, mode="0600", parents=True))
        sent = [request.data for request in self.asked()[2:]]
        self.assertEqual(sent, [b"abc", b"abc", b"text", big, b"pq", big])
        self.assertEqual(self.asked()[3].query, {"path": "f", "mode": "0600", "parents": "true"})

    def test_an_upload_that_is_refused_early(self) -> None:
        def script(request: Request, peer: Peer, n: int) -> None:
            peer.problem(404, "file_not_found")

        with self.assertRaises(skerry.NotFoundError):
            self.run_(self.sandbox(script).files.write("/no/f", b"x" * 100_000))

    def test_events_go_on(self) -> None:
        def happened(n: int) -> bytes:
            return event("exec_started", {"id": n, "type": "exec_started"}, n)

        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 0:
                peer.stream(event("ready", {"cursor": 40}, 40), cut=True)
            elif n == 1:
                peer.stream(event("ready", {"cursor": 40}, 40), happened(41), happened(42), cut=True)
            else:
                peer.stream(event("gap", {"from": 43, "to": 50}, 50), happened(51)) if n == 2 else peer.problem(400, "invalid_cursor")

        gaps: List[Any] = []
        server = self.serve(script)
        seen: List[int] = []
        with self.assertRaises(skerry.ApiError):
            self.gather(self.client(server).events(on_gap=gaps.append), seen)
        self.assertEqual((seen, gaps), ([41, 42, 51], [{"from": 43, "to": 50}]))
        self.assertEqual([request.query.get("cursor") for request in server.requests], [None, "40", "42", "51"])

    def gather(self, events: Any, seen: List[int]) -> None:
        for one in events:
            seen.append(one["id"])

    def terminal(self, script: Callable[[Request, Peer, int], None], **args: Any) -> Any:
        return self.run_(self.sandbox(script).terminal(**args))

    def test_a_terminal(self) -> None:
        heard: List[Any] = []

        def script(request: Request, peer: Peer, n: int) -> None:
            peer.upgrade(request)
            peer.say(ready())
            peer.frame(9, b"there?")
            peer.frame(2, b"$ ")
            while (2, b"exit\n") not in heard:
                heard.append(peer.read_frame())
            peer.frame(2, b"x" * 300)
            peer.say({"type": "exit", "exit_code": 7, "signal": None, "out_of_memory": False, "output_bytes": 2, "duration_ms": 1})
            peer.close_frame(1000)

        terminal = self.terminal(script, cols=100, rows=30)
        self.run_(terminal.resize(120, 40))
        self.assertEqual(self.run_(terminal.read(10)), b"$ ")
        with self.assertRaises(TimeoutError):
            self.run_(terminal.read(0.05))
        self.run_(terminal.write("exit\n"))
        self.assertEqual(b"".join(self.all(terminal)), b"x" * 300)
        self.assertEqual(self.run_(terminal.wait()).exit_code, 7)
        self.assertIn((10, b"there?"), heard)
        self.assertIn((1, b'{"type": "resize", "cols": 120, "rows": 40}'), heard)
        self.assertEqual(self.asked()[0].query, {"cols": "100", "rows": "30"})
        with self.assertRaises(skerry.SkerryError):
            self.run_(terminal.write("more"))

    def test_a_lost_terminal_is_taken_up(self) -> None:
        heard: List[bytes] = []

        def script(request: Request, peer: Peer, n: int) -> None:
            if n == 1:
                peer.problem(503, "shutting_down")
                return
            peer.upgrade(request)
            if n == 0:
                peer.say(ready(10, 100))
                peer.frame(2, b"one two ")
                heard.append(peer.read_frame()[1] + peer.read_frame()[1])
                peer.cut()
            else:
                peer.say(ready(18, 106))  # "first " has arrived
                heard.append(peer.read_frame()[1])
                peer.frame(2, b"three")
                peer.say({"type": "exit", "exit_code": 0})
                peer.close_frame(1000)

        terminal = self.terminal(script, terminal_id="term_1", from_offset=10)
        self.run_(terminal.write("first "))
        self.run_(terminal.write("second"))
        self.assertEqual(b"".join(self.all(terminal)), b"one two three")
        self.assertEqual(heard, [b"first second", b"second"])
        self.assertEqual(self.asked()[2].query, {"terminal_id": "term_1", "from_offset": "18"})
        self.assertEqual(terminal.offset, 23)

    def test_terminals_that_are_not_taken_up(self) -> None:
        cases = [(4001, None, "taken the terminal over"), (4002, "sandbox_ended", "it is over"), (4000, "scope_denied", "it is over"), (1002, None, "did not understand")]

        def script(request: Request, peer: Peer, n: int) -> None:
            code, problem, _ = cases[n]
            peer.upgrade(request)
            peer.say(ready())
            if problem:
                peer.say({"type": "error", "code": problem, "detail": "it is over"})
            peer.close_frame(code)

        sandbox = self.sandbox(script)
        for _, _, text in cases:
            terminal = self.run_(sandbox.terminal())
            with self.assertRaisesRegex(skerry.SkerryError, text):
                self.run_(terminal.read(10))
        self.assertEqual(len(self.asked()), len(cases))

    def test_a_terminal_that_is_refused(self) -> None:
        with self.assertRaises(skerry.NotFoundError) as caught:
            self.terminal(lambda request, peer, n: peer.problem(404, "terminal_not_found"))
        self.assertEqual(caught.exception.code, "terminal_not_found")


def ready(offset: int = 0, input_bytes: int = 0) -> Any:
    return {"type": "ready", "terminal_id": "term_1", "new": True, "offset": offset, "output_bytes": offset, "input_bytes": input_bytes}


class Async(Sync):
    """The same for the client of asyncio."""

    def setUp(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)

    def client(self, server: ScriptedServer, **options: Any) -> Any:
        client = skerry.AsyncSkerry(server.url, "sk_test", **options)

        async def close() -> None:
            client.close()
            await self.loop.shutdown_asyncgens()

        self.addCleanup(lambda: self.run_(close()))
        return client

    def run_(self, value: Any) -> Any:
        return self.loop.run_until_complete(value)

    def all(self, items: Any) -> List[Any]:
        async def gather() -> List[Any]:
            return [one async for one in items]

        return self.run_(gather())

    def gather(self, events: Any, seen: List[int]) -> None:
        async def gather() -> None:
            async for one in events:
                seen.append(one["id"])

        self.run_(gather())


if __name__ == "__main__":
    unittest.main()
