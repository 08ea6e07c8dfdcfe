"""Streams and composites both ways with the published binding, through a pipe, a socket and memory."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

# What either side writes: the code runs here and in the peer's process alike.
AUTHOR = """
import numpy as np

def authored(hurray):
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    def piece(rows, columns):
        part = np.ascontiguousarray(a[rows, columns])
        at = (rows.start or 0, columns.start or 0)
        return hurray.Tensor(part.tobytes(), hurray.float32, part.shape, shard=hurray.Shard((4, 6), at))
    every = piece(slice(0, 4), slice(0, 6))
    left, right = piece(slice(0, 4), slice(0, 2)), piece(slice(0, 4), slice(2, 6))
    yield hurray.Tensor(a.tobytes(), hurray.float32, a.shape)
    yield hurray.Tensor(b"", hurray.int8, (0, 3))
    yield hurray.Tensor(bytes(8), hurray.float64, ())
    yield hurray.Tensor(
        np.arange(3.0).tobytes(), hurray.float64, (2, 3), layout=hurray.CsrLayout(nnz=3),
        aux_buffers=[np.array([0, 2, 1], np.uint64).tobytes(), np.array([0, 2, 3], np.uint64).tobytes()],
    )
    q = hurray.Tensor(
        bytes(range(16)), hurray.int8, (4, 4), quantization=hurray.PerTensorAffine(0.5, 3),
        shard=hurray.Shard((4, 6), (0, 0)),
    )
    yield q
    part = hurray.Composite("partition", shape=(4, 6), dtype=hurray.float32, members=[right, left])
    yield part
    yield hurray.Composite(
        "partition", shape=(4, 6), dtype=hurray.float32, members=[q, piece(slice(0, 4), slice(4, 6))]
    )
    for op in ("replace", "add"):
        yield hurray.Composite("overlay", shape=(4, 6), dtype=hurray.float32, members=[every, left], combine_op=op)
    inner = hurray.Composite("group", shape=(2,), dtype=hurray.int8, members=[part, every])
    yield hurray.Composite("group", shape=(1,), dtype=hurray.int8, members=[inner, left])
"""
EXPECTED: dict[str, Any] = {}
exec(AUTHOR, EXPECTED)


def ours() -> list[Any]:
    return list(EXPECTED["authored"](hurray))


def stream(items: Any) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


def test_both_write_the_same_bytes() -> None:
    code = AUTHOR + (
        "\nimport hurray, sys\n"
        "w = hurray.StreamWriter()\n"
        "for item in authored(hurray): w.write(item)\n"
        "w.finish()\n"
        "print(w.getvalue().hex())\n"
    )
    theirs = bytes.fromhex(helpers.run_peer(code).strip())
    assert theirs == stream(ours())


RELAY = """
import os, sys, hurray
class Number:
    def __init__(self, n): self.n = n
    def fileno(self): return self.n
reader = hurray.StreamReader(Number(int(sys.argv[1])))
writer = hurray.StreamWriter(Number(int(sys.argv[2])))
for item in reader:
    writer.write(item)
writer.finish()
"""


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_relayed_by_the_peer(kind: str, peer_python: str) -> None:
    data = stream(ours())
    if kind == "pipe":
        to_peer, from_us = os.pipe()
        from_peer, to_us = os.pipe()
        ends: list[Any] = [os.fdopen(from_us, "wb", 0), os.fdopen(from_peer, "rb", 0)]
        handed = [to_peer, to_us]
    else:
        a, b = socket.socketpair()
        c, d = socket.socketpair()
        ends, handed = [a, d], [b.detach(), c.detach()]
    process = subprocess.Popen(
        [peer_python, "-c", RELAY, *map(str, handed)], pass_fds=handed, env=helpers.peer_env(), stderr=subprocess.PIPE
    )
    for number in handed:
        os.close(number)
    sink, source = ends

    def send() -> None:
        with sink, hurray.StreamWriter(sink) as writer:
            for item in ours():
                writer.write(item)
            if kind == "socket":
                sink.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    with source:
        got = list(hurray.StreamReader(source))
    thread.join()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert stream(got) == data
    for back, item in zip(got, ours(), strict=True):
        if item.descriptor.quantization is None and getattr(item, "composition_rule", "") != "group":
            np.testing.assert_array_equal(back.to_numpy(), item.to_numpy())


def test_the_peer_sees_our_values() -> None:
    code = (
        "import sys, hurray, numpy as np\n"
        "items = list(hurray.StreamReader(bytes.fromhex(sys.argv[1])))\n"
        "for m in items[0].members: print(np.asarray(m).tolist(), m.shard.shard_offset)\n"
        "print(items[1].member_roles, items[1].layout.combine_op, np.asarray(items[1].members[1]).tolist())\n"
    )
    whole = np.arange(6, dtype=np.int32).reshape(2, 3)
    shards = hurray.shard(whole, (1, 2))
    base = hurray.shard(whole, (1, 1))[0]
    overlay = hurray.Composite("overlay", shape=(2, 3), dtype=hurray.int32, members=[base, shards[1]], combine_op="add")
    out = helpers.run_peer(code, stream([hurray.assemble(shards), overlay]).hex()).splitlines()
    assert out == [
        "[[0, 1], [3, 4]] (0, 0)",
        "[[2], [5]] (0, 2)",
        "('base', 'correction') add [[2], [5]]",
    ]
