"""Pickles and capsules whose parts somebody changed: never a tensor that reads from elsewhere, or one that is none."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.tensor.pickling import _restore

HEAD = hurray.Composite("group", shape=(), dtype=hurray.float32, members=[]).descriptor
ZEROS = hurray.zeros([2]).descriptor.encode()


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD.encode(), (), 0, False), (ZEROS, (), 0, False), (ZEROS, (bytes(15),), 0, False),
        (ZEROS, (bytes(17),), 0, False), (ZEROS, (bytes(16), b""), 0, False), (ZEROS[:-1], (bytes(16),), 0, False),
        (b"", (bytes(16),), 0, False), (ZEROS, (bytes(16),), "x", False), (ZEROS, (bytes(16),), -1, False),
        (ZEROS, (bytes(16),), 2**40, False), (ZEROS, (3,), 0, False), (ZEROS, (np.zeros(2)[::-1],), 0, False),
        (ZEROS, ("text of 16 chars",), 0, False), (ZEROS, (np.zeros(2, object),), 0, False),
    ],
)  # fmt: skip
def test_wrong_parts_of_a_pickle(parts: tuple[Any, ...]) -> None:
    with pytest.raises((hurray.HurrayError, TypeError)):
        _restore(hurray.Tensor, *parts)


class Lying:
    """A buffer that is shorter than its descriptor says, under the native protocol's name."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __hurray__(self, stream: Any = None) -> Any:
        return self.capsule


@pytest.mark.parametrize("capsule", [None, b"", object(), 0, np.ones(2).__dlpack__()])
def test_what_is_no_capsule_of_ours(capsule: Any) -> None:
    with pytest.raises((hurray.HurrayError, TypeError)):
        hurray.from_hurray(Lying(capsule))


def test_a_capsule_is_consumed_once() -> None:
    capsule = hurray.ones([3]).__hurray__()
    assert hurray.from_hurray(Lying(capsule)).to_numpy().tolist() == [1, 1, 1]
    for _ in range(2):
        with pytest.raises(hurray.BufferError):
            hurray.from_hurray(Lying(capsule))


def test_changed_bytes_of_a_pickle() -> None:
    rng = random.Random(0)
    canary = b"\xc5" * 64
    t = hurray.Tensor(canary, hurray.uint8, [64])
    whole = pickle.dumps(t, protocol=5)
    body = whole.index(ZEROS[:4])
    for _ in range(2000):
        data = bytearray(whole)
        at = rng.randrange(body, body + len(t.descriptor.encode()))
        data[at] = rng.randrange(256)
        try:
            made = pickle.loads(bytes(data))
            whole_elements = made.dtype.bit_width >= 8 and made.dtype.name != "float128"
            values = made.to_numpy() if whole_elements else made.buffer(0).to_numpy()
        except hurray.HurrayError:
            continue
        assert set(values.tobytes()) <= {0xC5}
