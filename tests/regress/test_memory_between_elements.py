"""Arrays with other people's numbers between their elements: only their own elements ever leave the process."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray

SECRET = 987654.25
WANTED = np.arange(12.0).reshape(3, 4)


def sparse_view() -> Any:
    whole = np.full((6, 8), SECRET)
    whole[::2, ::2] = WANTED
    return whole[::2, ::2]


MAKERS: dict[str, Callable[[], Any]] = {
    "from_numpy": lambda: hurray.from_numpy(sparse_view()),
    "asarray": lambda: hurray.asarray(sparse_view()),
    "from_dlpack": lambda: hurray.from_dlpack(sparse_view()),
    "native": lambda: hurray.from_hurray(hurray.from_numpy(sparse_view())),
    "native twice": lambda: hurray.from_hurray(hurray.from_hurray(hurray.from_numpy(sparse_view()))),
    "deepcopy": lambda: copy.deepcopy(hurray.from_numpy(sparse_view())),
    "copy": lambda: hurray.asarray(hurray.from_numpy(sparse_view()), copy=True),
    "transposed": lambda: hurray.from_numpy(sparse_view().T).T,
    "sharded": lambda: hurray.shard(hurray.from_numpy(sparse_view()), (1, 1))[0],
    "member": lambda: hurray.Composite(
        "group", shape=(), dtype=hurray.float64, members=[hurray.from_numpy(sparse_view())]
    ),
    "backwards": lambda: hurray.from_numpy(sparse_view()[::-1])[::-1],
}


def streamed(item: Any) -> bytes:
    with hurray.StreamWriter() as w:
        w.write(item)
        return w.getvalue()


def saved(item: Any) -> bytes:
    target = io.BytesIO()
    hurray.save(target, {"x": item})
    return target.getvalue()


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "stream": streamed, "file": saved, "pickle": pickle.dumps,
    "old pickle": lambda item: pickle.dumps(item, protocol=2),
    "shared": lambda item: bytes(hurray.share(item)._segment.map[:]),
}  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_else_is_written(maker: str, writer: str) -> None:
    item = MAKERS[maker]()
    data = WRITERS[writer](item if isinstance(item, (hurray.Tensor, hurray.Composite)) else hurray.asarray(item))
    assert np.float64(SECRET).tobytes() not in data


@pytest.mark.parametrize("maker", [m for m in MAKERS if m != "member"])
def test_the_values_are_right(maker: str) -> None:
    item = MAKERS[maker]()
    assert np.array_equal(np.asarray(item), WANTED)
    assert np.array_equal(hurray.load(saved(hurray.asarray(item)))["x"].to_numpy(), WANTED)
