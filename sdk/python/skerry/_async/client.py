"""The way in: a client of one server with one key."""

from __future__ import annotations

import ssl
import uuid
from typing import Any, AsyncGenerator, Callable, Dict, List, Optional, Union, cast

from .._errors import ProtocolError, api_error
from .._sse import parse_data
from .._types import (
    Event,
    EventGap,
    GetUsageResult,
    Image,
    ListEventsResult,
    Network,
    PricesResult,
    Snapshot,
)
from .._unset import UNSET, Unset
from .events import EVENT_STREAM, follow_events
from .sandbox import AsyncSandbox
from .transport import AsyncTransport


class AsyncSkerry:
    """url: default the environment's SKERRY_URL, or http://127.0.0.1:7171; key: SKERRY_API_KEY.

    retries: how often a request is asked again. timeout: how long an answer may be silent, in seconds.
    silence: a stream on which nothing comes for so long, not even heartbeats, is taken for lost, and
    looked for again for `reconnect` seconds. tls: in place of ssl.create_default_context().
    """

    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        retries: int = 4,
        timeout: float = 300.0,
        silence: float = 60.0,
        reconnect: float = 60.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._transport = AsyncTransport(
            url, key, retries=retries, timeout=timeout, silence=silence, reconnect=reconnect, tls=tls
        )

    async def call(self, operation: str, /, **args: Any) -> Dict[str, Any]:
        """Calls any operation of the server by its name."""
        return await self._transport.call(operation, args)

    def close(self) -> None:
        """Ends connections that are not in use."""
        self._transport.close()

    async def __aenter__(self) -> AsyncSkerry:
        return self

    async def __aexit__(self, *unused: object) -> None:
        self.close()

    # ---- sandboxes ----

    async def create(
        self,
        *,
        size: Optional[str] = None,
        timeout_minutes: Optional[int] = None,
        image: Optional[str] = None,
        name: Optional[str] = None,
        labels: Optional[Dict[str, str]] = None,
        snapshot: Optional[str] = None,
        egress: Union[List[str], None, Unset] = UNSET,
        networks: Optional[List[str]] = None,
        on_timeout: Optional[str] = None,
        idle_pause_minutes: Optional[int] = None,
        vcpus: Optional[float] = None,
        memory_mb: Optional[int] = None,
        disk_gb: Optional[int] = None,
        idempotency_key: Optional[str] = None,
    ) -> AsyncSandbox:
        """Starts a sandbox. An answer that is lost is asked for again, and makes no second one.

        egress: None for the internet, [] for nothing, else a list of rules.
        """
        given = {
            "size": size, "timeout_minutes": timeout_minutes, "image": image, "name": name,
            "labels": labels, "snapshot": snapshot, "networks": networks, "on_timeout": on_timeout,
            "idle_pause_minutes": idle_pause_minutes, "vcpus": vcpus, "memory_mb": memory_mb,
            "disk_gb": disk_gb,
        }  # fmt: skip
        args: Dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if not isinstance(egress, Unset):
            args["egress"] = egress
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        info = await self._transport.call("create_sandbox", args, headers=headers, repeatable=True)
        return AsyncSandbox(self._transport, cast(Any, info))

    async def attach(self, id: str) -> AsyncSandbox:
        """A sandbox that is there, by its id."""
        return AsyncSandbox(self._transport, cast(Any, await self.call("get_sandbox", id=id)))

    async def sandboxes(
        self,
        *,
        status: Optional[str] = None,
        label: Optional[str] = None,
        image: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> AsyncGenerator[AsyncSandbox, None]:
        """Sandboxes, newest first; those that are alive, unless status says otherwise."""
        given = {"status": status, "label": label, "image": image, "limit": limit}
        args: Dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        while True:
            page = await self.call("list_sandboxes", **args)
            for info in page["items"]:
                yield AsyncSandbox(self._transport, info)
            if not page["next_cursor"]:
                return
            args["cursor"] = page["next_cursor"]

    # ---- snapshots, networks, images ----

    async def snapshots(self) -> List[Snapshot]:
        return cast(List[Snapshot], (await self.call("list_snapshots"))["items"])

    async def remove_snapshot(self, name: str) -> None:
        await self.call("remove_snapshot", name=name)

    async def create_network(self, name: str) -> Network:
        return cast(Network, await self.call("create_network", name=name))

    async def networks(self) -> List[Network]:
        return cast(List[Network], (await self.call("list_networks"))["items"])

    async def remove_network(self, name: str) -> None:
        await self.call("remove_network", name=name)

    async def images(self) -> List[Image]:
        return cast(List[Image], (await self.call("list_images"))["items"])

    async def build_image(
        self,
        name: str,
        *,
        rebuild: bool = False,
        on_progress: Optional[Callable[[int, str], None]] = None,
    ) -> Image:
        """Builds an image by its recipe, which takes a while the first time."""
        args = {"name": name, "rebuild": rebuild}
        response = await self._transport.send("build_image", args, headers=EVENT_STREAM)
        if "event-stream" not in response.headers.get("content-type", ""):
            return cast(Image, await response.json())
        events = response.events(self._transport.silence)
        try:
            async for event in events:
                data = parse_data(event)
                if event.event == "result":
                    return cast(Image, data)
                if event.event == "error":
                    raise api_error(data, data.get("status", 500))
                if event.event == "progress" and on_progress:
                    on_progress(data["percent"], data["message"])
        finally:
            await events.aclose()
        raise ProtocolError("the build ended without a result")

    async def remove_image(self, name: str) -> None:
        await self.call("remove_image", name=name)

    # ---- the account, and the server ----

    def events(
        self,
        *,
        cursor: Optional[int] = None,
        sandbox_id: Optional[str] = None,
        type: Optional[str] = None,
        on_ready: Optional[Callable[[int], None]] = None,
        on_gap: Optional[Callable[[EventGap], None]] = None,
    ) -> AsyncGenerator[Event, None]:
        """What happens to the account's sandboxes, as it does.

        cursor: the id of the last event that was seen; 0: from the oldest that is kept on; by default
        from now on.
        """
        return follow_events(
            self._transport,
            cursor=cursor, sandbox_id=sandbox_id, type=type, on_ready=on_ready, on_gap=on_gap,
        )  # fmt: skip

    async def past_events(
        self,
        *,
        cursor: Optional[int] = None,
        sandbox_id: Optional[str] = None,
        type: Optional[str] = None,
        newest: Optional[bool] = None,
        limit: Optional[int] = None,
    ) -> ListEventsResult:
        """A page of what has happened."""
        given = {
            "cursor": cursor, "sandbox_id": sandbox_id, "type": type, "newest": newest, "limit": limit,
        }  # fmt: skip
        args = {key: value for key, value in given.items() if value is not None}
        return cast(ListEventsResult, await self._transport.call("list_events", args))

    async def usage(
        self,
        *,
        account_id: Optional[str] = None,
        days: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> GetUsageResult:
        """Balance, spend by day, key and sandbox, the running rate, and when the credit ends at it."""
        given = {"account_id": account_id, "days": days, "limit": limit}
        args = {key: value for key, value in given.items() if value is not None}
        return cast(GetUsageResult, await self._transport.call("get_usage", args))

    async def prices(self) -> PricesResult:
        return cast(PricesResult, await self.call("prices"))

    async def limits(self) -> Dict[str, Any]:
        """Every size, limit and default in force."""
        return await self.call("limits")
