"""Pickles and copies of tensors and composites."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.tensor.pickling import _restore

PLAIN = np.arange(64, dtype=np.float32).reshape(8, 8)
MAKERS: dict[str, Callable[[], hurray.Tensor]] = {
    "row_major": lambda: hurray.from_numpy(PLAIN),
    "col_major": lambda: hurray.from_numpy(PLAIN.T),
    "csr": lambda: hurray.sparse_coo(np.ones(1), np.array([[1, 2]]), (4, 4)).to_layout("csr"),
    "bool": lambda: hurray.from_numpy(PLAIN > 9),
    "empty": lambda: hurray.zeros([0, 3]),
    "quantized": lambda: hurray.Tensor(
        np.arange(64, dtype=np.int8),
        hurray.int8,
        [8, 8],
        aux_buffers=[np.ones(8, np.float32)],
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
        shard=hurray.Shard((16, 8), (8, 0)),
    ),
    "device": lambda: hurray.Tensor(bytes(64), hurray.float32, [4], hurray.Device("cuda", 3)),
}


def addresses(tensor: hurray.Tensor) -> list[int]:
    return [b.__array_interface__["data"][0] for b in tensor._buffers if b.size]


def same(a: hurray.Tensor, b: hurray.Tensor) -> bool:
    return (
        a.descriptor == b.descriptor
        and a.device == b.device
        and [x.tobytes() for x in a._buffers] == [x.tobytes() for x in b._buffers]
    )


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("name", MAKERS)
def test_every_protocol_keeps_everything(name: str, protocol: int) -> None:
    tensor = MAKERS[name]()
    assert same(pickle.loads(pickle.dumps(tensor, protocol)), tensor)


@pytest.mark.parametrize("name", ["row_major", "csr", "quantized"])
def test_buffers_travel_beside_the_pickle_without_a_copy(name: str) -> None:
    tensor = MAKERS[name]()
    beside: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tensor, 5, buffer_callback=beside.append)
    assert len(beside) == tensor.buffer_count
    assert len(data) < 600
    twin = pickle.loads(data, buffers=beside)
    assert same(twin, tensor)
    assert addresses(twin) == addresses(tensor)
    received = [bytearray(b.raw()) for b in beside]
    other = pickle.loads(data, buffers=received)
    assert same(other, tensor)
    assert addresses(other) == [np.frombuffer(b, np.uint8).__array_interface__["data"][0] for b in received]
    assert not any(b.flags.writeable for b in other._buffers)


def test_a_view_takes_only_its_own_elements_along() -> None:
    view = hurray.from_numpy(np.arange(100_000)[::1000])
    data = pickle.dumps(view)
    assert len(data) < 2000
    assert pickle.loads(data).to_numpy().tolist() == list(range(0, 100_000, 1000))


def test_one_tensor_twice_is_one_tensor() -> None:
    tensor = MAKERS["row_major"]()
    first, second = pickle.loads(pickle.dumps([tensor, tensor]))
    assert first is second


def test_copies() -> None:
    tensor = MAKERS["quantized"]()
    assert addresses(copy.copy(tensor)) == addresses(tensor)
    deep = copy.deepcopy(tensor)
    assert same(deep, tensor)
    assert not set(addresses(deep)) & set(addresses(tensor))


def nested() -> hurray.Composite:
    parts = [
        hurray.Tensor(np.full(32, k, np.float32), hurray.float32, [8, 4], shard=hurray.Shard((8, 8), (0, 4 * k)))
        for k in range(2)
    ]
    whole = hurray.Composite("partition", shape=(8, 8), dtype=hurray.float32, members=parts)
    return hurray.Composite("group", shape=(), dtype=hurray.float32, members=[whole, hurray.arange(3)])


@pytest.mark.parametrize("protocol", range(2, 6))
def test_composites(protocol: int) -> None:
    item = nested()
    twin = pickle.loads(pickle.dumps(item, protocol))
    assert twin.descriptor == item.descriptor
    assert twin.members[0].descriptor == item.members[0].descriptor
    np.testing.assert_array_equal(twin.members[0].to_numpy(), item.members[0].to_numpy())
    assert isinstance(item.members[1], hurray.Tensor)
    assert same(twin.members[1], item.members[1])


def test_composites_beside_the_pickle_and_deep() -> None:
    item = nested()
    beside: list[pickle.PickleBuffer] = []
    twin = pickle.loads(pickle.dumps(item, 5, buffer_callback=beside.append), buffers=beside)
    assert len(beside) == 3
    assert addresses(twin.members[1]) == addresses(item.members[1])  # type: ignore[arg-type]
    assert copy.copy(item).members[1] is item.members[1]
    deep = copy.deepcopy(item)
    assert addresses(deep.members[1]) != addresses(item.members[1])  # type: ignore[arg-type]
    np.testing.assert_array_equal(deep.members[0].to_numpy(), item.members[0].to_numpy())


@pytest.mark.parametrize(
    ("descriptor", "buffers", "error"),
    [
        (lambda d: d[:-1], lambda b: b, hurray.InvalidDescriptorError),
        (lambda d: b"XXXX" + d[4:], lambda b: b, hurray.InvalidDescriptorError),
        (lambda d: d, lambda b: (), hurray.InvalidDescriptorError),
        (lambda d: d, lambda b: (*b, *b), hurray.InvalidDescriptorError),
        (lambda d: d, lambda b: (b[0][:-1],), hurray.BufferError),
        (lambda d: d, lambda b: (bytes(b[0]) + b"x",), hurray.BufferError),
        (lambda d: d, lambda b: (3,), TypeError),
    ],
)
def test_damaged_pickles_are_refused(descriptor: Any, buffers: Any, error: type[Exception]) -> None:
    tensor = hurray.arange(6, dtype=hurray.int16)
    parts = tensor.__reduce_ex__(4)[1]
    with pytest.raises(error):
        _restore(parts[0], descriptor(parts[1]), buffers(parts[2]), 0, False)


def test_more_buffers_than_a_descriptor_can_tell_are_refused() -> None:
    tensor = hurray.Tensor(bytes(8), hurray.int8, [8], aux_buffers=[bytes(4)])
    with pytest.raises(hurray.InvalidDescriptorError):
        pickle.dumps(tensor)
