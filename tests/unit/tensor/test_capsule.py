"""The native protocol: every layout across, lifetimes, and a reader that knows only the documented struct."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.tensor import capi, capsule

PLAIN = np.arange(64, dtype=np.float32).reshape(8, 8)


def sparse() -> hurray.Tensor:
    return hurray.sparse_coo(np.array([1.0, 2.0]), np.array([[0, 1], [2, 3]], np.uint64), (4, 4))


MAKERS: dict[str, Callable[[], hurray.Tensor]] = {
    "row_major": lambda: hurray.from_numpy(PLAIN),
    "col_major": lambda: hurray.from_numpy(PLAIN.T),
    "strided": lambda: hurray.from_numpy(PLAIN[::-1, ::2]),
    "tiled": lambda: hurray.from_numpy(PLAIN).to_layout("tiled", tile_shape=[4, 4]),
    "morton": lambda: hurray.from_numpy(PLAIN).to_layout("morton"),
    "hilbert": lambda: hurray.from_numpy(PLAIN).to_layout("hilbert"),
    "coo": sparse,
    "csr": lambda: sparse().to_layout("csr"),
    "csc": lambda: sparse().to_layout("csc"),
    "bool": lambda: hurray.from_numpy(PLAIN > 9),
    "scalar": lambda: hurray.from_numpy(np.array(4.5)),
    "empty": lambda: hurray.zeros([0, 3]),
    "quantized": lambda: hurray.Tensor(
        np.arange(64, dtype=np.int8),
        hurray.int8,
        [8, 8],
        aux_buffers=[np.ones(8, np.float32)],
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
        statistics=hurray.Statistics(nnz=63),
        shard=hurray.Shard((16, 8), (8, 0)),
    ),
    "private": lambda: hurray.Tensor(
        bytes(64),
        hurray.Dtype.from_tag(0xF1),
        [4],
        extension_type=hurray.ExtensionType(16, is_float=False, is_signed=True),
    ),
    "device": lambda: hurray.Tensor(bytes(64), hurray.float32, [4], hurray.Device("cuda", 3, "unified")),
}


class Holder:
    def __init__(self, offered: object) -> None:
        self.offered = offered

    def __hurray__(self, stream: Any = None) -> object:
        return self.offered


def native_of(offered: object) -> capsule.NativeTensor:
    return capsule.NativeTensor.from_address(capi.capsule_pointer(offered, capsule.CAPSULE_NAME))


def addresses(tensor: hurray.Tensor) -> list[int]:
    return [b.__array_interface__["data"][0] for b in tensor._buffers if b.size]


@pytest.mark.parametrize("name", MAKERS)
def test_everything_crosses_without_a_copy(name: str) -> None:
    tensor = MAKERS[name]()
    twin = hurray.from_hurray(tensor)
    assert twin.descriptor == tensor.descriptor
    assert twin.device == tensor.device
    assert addresses(twin) == addresses(tensor)
    assert [b.tobytes() for b in twin._buffers] == [b.tobytes() for b in tensor._buffers]
    assert not any(b.flags.writeable for b in twin._buffers)
    again = hurray.from_hurray_buffer(twin)
    assert addresses(again) == addresses(tensor)


def test_both_spellings_on_both_sides() -> None:
    tensor = hurray.arange(3)
    assert capi.capsule_name(tensor.__hurray_buffer__(stream=None)) == "hurray_tensor_v1"

    class Original:
        def __hurray_buffer__(self, stream: Any = None) -> object:
            return tensor.__hurray__(stream)

    assert hurray.from_hurray(Original()).to_numpy().tolist() == [0, 1, 2]
    assert hurray.from_hurray_buffer is hurray.from_hurray
    with pytest.raises(TypeError, match="stream"):
        tensor.__hurray__("x")


def test_the_struct_is_as_documented() -> None:
    # Read with struct alone, as another language would.
    values = np.arange(6, dtype=np.int16)
    tensor = hurray.Tensor(values, hurray.int16, [6], hurray.Device("cuda", 7))
    offered = tensor.__hurray__()
    raw = ctypes.string_at(capi.capsule_pointer(offered, "hurray_tensor_v1"), 64)
    abi, size, flags, text, length, table, count, device_id, context, release = struct.unpack("<IIQQQQIiQQ", raw)
    assert (abi, size, flags, count, device_id) == (1, 64, 1, 1, 7)
    assert ctypes.string_at(text, length) == tensor.descriptor.encode()
    data, n_bytes = struct.unpack("<QQ", ctypes.string_at(table, 16))
    assert n_bytes == 12
    assert ctypes.string_at(data, 12) == values.tobytes()
    assert context
    assert release


def test_another_consumer_takes_the_capsule_and_releases_from_a_thread_without_the_gil() -> None:
    array = np.arange(6.0)
    alive = weakref.ref(array)
    offered = hurray.from_numpy(array).__hurray__()
    native = native_of(offered)
    release, context = native.release, native.manager_ctx
    capi.rename_capsule(offered, capsule.USED_NAME)
    del array, offered, native
    gc.collect()
    assert alive() is not None
    thread = threading.Thread(target=ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release), args=(context,))
    thread.start()
    thread.join()
    assert alive() is None


def test_memory_lives_as_long_as_the_last_view() -> None:
    array = np.arange(6.0)
    alive = weakref.ref(array)
    twin = hurray.from_hurray(hurray.from_numpy(array))
    del array
    view = twin.to_numpy()[2:]
    del twin
    gc.collect()
    assert alive() is not None
    assert view.tolist() == [2, 3, 4, 5]
    del view
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_takes_is_freed_by_the_next_collection_or_export() -> None:
    for settle in (gc.collect, lambda: hurray.zeros([1]).__hurray__()):
        array = np.arange(6.0)
        alive = weakref.ref(array)
        offered = hurray.from_numpy(array).__hurray__()
        del array
        gc.collect()
        assert alive() is not None
        del offered
        settle()
        assert alive() is None


def test_an_exception_on_its_way_survives_a_dying_capsule() -> None:
    with pytest.raises(TypeError, match="len"):
        len(hurray.zeros([1]).__hurray__())


def test_many_threads_offer_and_take() -> None:
    array = np.arange(100.0)
    alive = weakref.ref(array)
    wrong: list[str] = []

    def work(tensor: hurray.Tensor) -> None:
        for k in range(60):
            if k % 3:
                if hurray.from_hurray(tensor)[7] != 7:
                    wrong.append("value")
            else:
                tensor.__hurray__()

    threads = [threading.Thread(target=work, args=(hurray.from_numpy(array),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    threads.clear()
    del array, thread
    gc.collect()
    assert alive() is None


def test_a_consumed_capsule_is_not_consumed_twice() -> None:
    holder = Holder(hurray.arange(3).__hurray__())
    first = hurray.from_hurray(holder)
    with pytest.raises(hurray.BufferError, match="already been consumed"):
        hurray.from_hurray(holder)
    assert first.to_numpy().tolist() == [0, 1, 2]


def test_other_objects_are_type_errors() -> None:
    whole = hurray.Composite("group", shape=(), dtype=hurray.float32, members=[hurray.zeros([1])])
    for bad in (3, None, PLAIN, whole, hurray.Tensor, hurray.zeros([1]).__hurray__(), Holder(3)):
        with pytest.raises(TypeError):
            hurray.from_hurray(bad)


@pytest.mark.parametrize("name", ["hurray_tensor", "hurray_tensor_v2"])
def test_other_abi_versions_are_unsupported_by_name(name: str) -> None:
    with pytest.raises(hurray.UnsupportedError, match=name):
        hurray.from_hurray(Holder(capi.new_capsule(1, name)))


def test_capsules_of_other_protocols_are_refused() -> None:
    with pytest.raises(hurray.BufferError, match="dltensor"):
        hurray.from_hurray(Holder(PLAIN.__dlpack__()))


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("abi_version", 2, hurray.UnsupportedError),
        ("struct_size", 63, hurray.BufferError),
        ("descriptor", None, hurray.BufferError),
        ("descriptor_size", 2**40, hurray.BufferError),
        ("descriptor_size", 30, hurray.InvalidDescriptorError),
        ("buffer_count", 2, hurray.BufferError),
        ("buffer_count", 0, hurray.BufferError),
        ("buffer_count", 2**31, hurray.BufferError),
        ("buffers", None, hurray.BufferError),
        ("size", 11, hurray.BufferError),
        ("size", 2**63, hurray.BufferError),
        ("data", None, hurray.BufferError),
    ],
)
def test_damaged_structs_are_refused_and_not_consumed(field: str, value: Any, error: type[Exception]) -> None:
    tensor = hurray.arange(6, dtype=hurray.int16)
    table = (capsule.NativeBuffer * 2)()
    table[0].data, table[0].size = addresses(tensor)[0], 12
    text = tensor.descriptor.encode()
    holder = ctypes.create_string_buffer(text, len(text))
    native = capsule.NativeTensor(
        abi_version=1,
        struct_size=64,
        flags=1,
        descriptor=ctypes.addressof(holder),
        descriptor_size=len(text),
        buffers=ctypes.addressof(table),
        buffer_count=1,
    )
    offered = capi.new_capsule(ctypes.addressof(native), "hurray_tensor_v1")
    assert hurray.from_hurray(Holder(offered)).to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    capi.rename_capsule(offered, "hurray_tensor_v1")
    setattr(table[0] if field in ("size", "data") else native, field, value)
    with pytest.raises(error):
        hurray.from_hurray(Holder(offered))
    assert capi.capsule_name(offered) == "hurray_tensor_v1"
