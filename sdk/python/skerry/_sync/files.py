# Made of ../_async by unasync.py: do not edit.
"""Files of a sandbox. An upload is durable when it is answered, and whole or not at all."""

from __future__ import annotations

from typing import Any, Generator, Dict, List, Optional, cast

from .._errors import ApiError
from .._net import FileData
from .._types import DirectoryEntry, FileEntry, WriteTreeResult
from .transport import Transport

TAR = {"Content-Type": "application/x-tar"}


def _body(data: FileData) -> Any:
    if isinstance(data, str):
        return data.encode()
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data


class Files:
    """user: who does it in the sandbox; default sandbox."""

    def __init__(self, transport: Transport, sandbox_id: str) -> None:
        self._transport, self._id = transport, sandbox_id

    def _args(self, **more: Any) -> Dict[str, Any]:
        args = {key: value for key, value in more.items() if value is not None}
        return {**args, "id": self._id}

    def read(self, path: str, *, user: Optional[str] = None) -> bytes:
        """The whole file."""
        response = self._transport.send("read_file", self._args(path=path, user=user))
        return response.read()

    def read_text(self, path: str, *, user: Optional[str] = None) -> str:
        return (self.read(path, user=user)).decode("utf-8", "replace")

    def stream(
        self, path: str, *, start: int = 0, end: Optional[int] = None, user: Optional[str] = None
    ) -> Generator[bytes, None, None]:
        """The file's content as it comes, all of it or from start up to, without, end."""
        headers = {}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        args = self._args(path=path, user=user)
        response = self._transport.send("read_file", args, headers=headers)
        pieces = response.chunks()
        try:
            for piece in pieces:
                yield piece
        finally:
            pieces.close()

    def write(
        self,
        path: str,
        data: FileData,
        *,
        mode: Optional[str] = None,
        parents: Optional[bool] = None,
        overwrite: Optional[bool] = None,
        user: Optional[str] = None,
    ) -> FileEntry:
        """Makes the file or replaces it. data: text, bytes, a file open in binary mode, or pieces."""
        args = self._args(path=path, mode=mode, parents=parents, overwrite=overwrite, user=user)
        # One that may not overwrite would meet itself.
        response = self._transport.send(
            "write_file", args, body=_body(data), repeatable=overwrite is not False
        )
        return cast(FileEntry, response.json())

    def entries(self, path: str, *, user: Optional[str] = None) -> Generator[DirectoryEntry, None, None]:
        """What is in a directory, by name."""
        cursor: Optional[str] = None
        while True:
            args = self._args(path=path, user=user, limit=1000, cursor=cursor)
            page = self._transport.call("list_files", args)
            for entry in page["items"]:
                yield entry
            cursor = page["next_cursor"]
            if not cursor:
                return

    def list(self, path: str, *, user: Optional[str] = None) -> List[DirectoryEntry]:
        """The same, all of it."""
        return [entry for entry in self.entries(path, user=user)]

    def stat(self, path: str, *, user: Optional[str] = None) -> FileEntry:
        """What is at a path; a symbolic link is described itself."""
        args = self._args(path=path, user=user)
        return cast(FileEntry, self._transport.call("stat_file", args))

    def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        try:
            self.stat(path, user=user)
            return True
        except ApiError as error:
            if error.code in ("file_not_found", "not_a_directory"):
                return False
            raise

    def mkdir(
        self,
        path: str,
        *,
        mode: Optional[str] = None,
        parents: Optional[bool] = None,
        user: Optional[str] = None,
    ) -> FileEntry:
        args = self._args(path=path, mode=mode, parents=parents, user=user)
        return cast(FileEntry, self._transport.call("make_directory", args))

    def move(
        self,
        source: str,
        to: str,
        *,
        parents: Optional[bool] = None,
        overwrite: Optional[bool] = None,
        user: Optional[str] = None,
    ) -> FileEntry:
        """to is the new path, not a directory to put it in."""
        args = self._args(to=to, parents=parents, overwrite=overwrite, user=user)
        args["from"] = source
        return cast(FileEntry, self._transport.call("move_file", args))

    def remove(
        self, path: str, *, recursive: Optional[bool] = None, user: Optional[str] = None
    ) -> None:
        args = self._args(path=path, recursive=recursive, user=user)
        self._transport.call("remove_file", args)

    def read_tree(self, path: str, *, user: Optional[str] = None) -> Generator[bytes, None, None]:
        """What is below a directory, as the pieces of an uncompressed tar archive."""
        response = self._transport.send("read_tree", self._args(path=path, user=user))
        pieces = response.chunks()
        try:
            for piece in pieces:
                yield piece
        finally:
            pieces.close()

    def write_tree(
        self,
        path: str,
        tar: FileData,
        *,
        parents: Optional[bool] = None,
        owners: Optional[bool] = None,
        user: Optional[str] = None,
    ) -> WriteTreeResult:
        """Unpacks a tar archive below a directory."""
        args = self._args(path=path, parents=parents, owners=owners, user=user)
        response = self._transport.send("write_tree", args, headers=TAR, body=_body(tar))
        return cast(WriteTreeResult, response.json())
