"""A pipe or a socket between two processes that both start at a sign.

Standard library only, so that any interpreter can import it by its folder.
"""

from __future__ import annotations

import io
import os
import socket
from typing import Any

__all__ = ["KINDS", "Receiver", "connect", "receive_into"]

KINDS = ("socket", "pipe")


class Receiver:
    """The end that values come out of, and that says when they start.

    Each :meth:`open` waits for one sender that called :func:`connect`; then ``data`` is a socket or a raw file.
    """

    def __init__(self, folder: str, kind: str) -> None:
        self._kind = kind
        self._path = os.path.join(folder, kind)
        self._go_listener = _listen(self._path + ".go")
        self._listener = _listen(self._path) if kind == "socket" else None
        if kind == "pipe":
            os.mkfifo(self._path)
        self.data: Any = None
        self._go: socket.socket | None = None

    def open(self) -> None:
        """Wait until the sender is there."""
        self._go = self._go_listener.accept()[0]
        self.data = self._listener.accept()[0] if self._listener else io.FileIO(self._path, "rb")

    def go(self) -> Any:
        """Let the sender start, and return where its bytes come from."""
        assert self._go is not None
        self._go.send(b"!")
        return self.data

    def shut(self) -> None:
        """Close the connection; another may be opened."""
        self.data.close()
        if self._go is not None:
            self._go.close()

    def close(self) -> None:
        """Take the addresses away."""
        self._go_listener.close()
        os.unlink(self._path + ".go")
        if self._listener is not None:
            self._listener.close()
        os.unlink(self._path)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    return listener


def connect(folder: str, kind: str) -> Any:
    """Connect to a receiver, wait for its sign, and return a socket or a raw file to send on."""
    path = os.path.join(folder, kind)
    go = socket.socket(socket.AF_UNIX)
    go.connect(path + ".go")
    data: Any
    if kind == "socket":
        data = socket.socket(socket.AF_UNIX)
        data.connect(path)
    else:
        data = io.FileIO(path, "wb")
    go.recv(1)
    go.close()
    return data


def send_view(data: Any, view: memoryview) -> None:
    """Send every byte of a view."""
    if isinstance(data, socket.socket):
        data.sendall(view)
        return
    while len(view):
        view = view[data.write(view) :]


def receive_into(data: Any, view: memoryview) -> None:
    """Fill a view.

    Raises
    ------
    EOFError
        The bytes end before.
    """
    read = data.recv_into if isinstance(data, socket.socket) else data.readinto
    while len(view):
        n = read(view)
        if not n:
            raise EOFError("the sender stopped early")
        view = view[n:]


def as_file(data: Any, mode: str) -> Any:
    """Return a buffered file over a socket or a raw file."""
    if isinstance(data, socket.socket):
        return data.makefile(mode)  # type: ignore[call-overload]
    return io.BufferedReader(data) if mode == "rb" else io.BufferedWriter(data)
