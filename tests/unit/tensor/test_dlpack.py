"""DLPack both ways, with NumPy as the other side and with capsules made by hand."""

from __future__ import annotations

import builtins
import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
import hurray
from hurray.descriptor.model import Descriptor
from hurray.dtypes.table import ALL_DTYPES, BY_NAME
from hurray.tensor import capi, dlpack

CROSSING = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
STAYING = [d.name for d in ALL_DTYPES if d.name not in (*CROSSING, "bfloat16")]


class Exporter:
    """An object of another library: one capsule, or a function that makes one."""

    def __init__(self, make: Any, device: tuple[int, int] | None = (1, 0)) -> None:
        self.make = make
        self.device = device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.make(**keywords) if callable(self.make) else self.make

    def __dlpack_device__(self) -> Any:
        if self.device is None:
            raise AttributeError
        return self.device


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def struct(capsule: object) -> Any:
    name = capi.capsule_name(capsule)
    kind = capi.DLManagedTensorVersioned if name == "dltensor_versioned" else capi.DLManagedTensor
    return kind.from_address(capi.capsule_pointer(capsule, name))


def loan(array: np.ndarray[Any, Any], code: int = 2, bits: int = 32) -> capi.Loan:
    return capi.Loan(address(array), array.shape, [s // array.itemsize for s in array.strides], code, bits)


# Export


@pytest.mark.parametrize("name", CROSSING)
def test_numpy_reads_every_crossing_type_over_the_same_memory(name: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(name)
    got = np.from_dlpack(hurray.from_numpy(array))
    helpers.assert_same_bits(got, array)
    assert address(got) == address(array)
    assert not got.flags.writeable


def test_bfloat16_says_bfloat() -> None:
    array = np.array([1.5, -0.0, np.nan, 3e38], ml_dtypes.bfloat16)
    tensor = hurray.from_numpy(array)
    dl = struct(capsule := tensor.__dlpack__(max_version=(1, 0))).dl_tensor
    assert (dl.code, dl.bits, dl.lanes, dl.ndim) == (4, 16, 1, 1)
    helpers.assert_same_bits(hurray.from_dlpack(capsule).to_numpy(), array)


@pytest.mark.parametrize("name", STAYING)
def test_other_types_do_not_leave(name: str) -> None:
    tensor = hurray.Tensor(bytes(64), BY_NAME[name], [2])
    with pytest.raises(builtins.BufferError, match=name):
        tensor.__dlpack__(max_version=(1, 0))


@given(
    st.lists(st.integers(0, 4), max_size=4),
    st.permutations(range(4)),
    st.lists(st.sampled_from([1, 2, -1, 3]), min_size=4, max_size=4),
)
def test_any_strides_cross(shape: list[int], order: list[int], steps: list[int]) -> None:
    base = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    axes = [k for k in order if k < len(shape)]
    array = np.asarray(base.transpose(axes)[tuple(slice(None, None, s) for s in steps[: len(shape)])])
    tensor = hurray.from_numpy(array)
    np.testing.assert_array_equal(np.from_dlpack(tensor), array)
    shared = np.from_dlpack(tensor, copy=False)
    np.testing.assert_array_equal(shared, array)
    if array.size:
        assert address(shared) == address(array)
    np.testing.assert_array_equal(hurray.from_dlpack(array).to_numpy(), array)


def test_broadcast_strides_cross() -> None:
    array = np.broadcast_to(np.float32(7), (2, 3))
    got = np.from_dlpack(hurray.from_numpy(array))
    assert got.strides == (0, 0)
    assert got.tolist() == [[7, 7, 7], [7, 7, 7]]


def test_byte_offset_is_honoured() -> None:
    data = np.arange(8, dtype=np.float32)
    tensor = hurray.Tensor(data, hurray.float32, [3], byte_offset=8)
    got = np.from_dlpack(tensor)
    assert got.tolist() == [2, 3, 4]
    assert address(got) == address(data) + 8


def test_strides_are_always_there_and_normal_where_unused() -> None:
    array = np.arange(6, dtype=np.float32).reshape(1, 6)
    for case, strides in ((array, [6, 1]), (array[:, :1], [1, 1]), (array[:0], [6, 1]), (array.T, [1, 1])):
        dl = struct(capsule := hurray.from_numpy(case).__dlpack__(max_version=(1, 0))).dl_tensor
        assert list((ctypes.c_int64 * 2).from_address(dl.strides)) == strides, case.shape
        assert list((ctypes.c_int64 * 2).from_address(dl.shape)) == list(case.shape)
        del capsule


def test_most_dimensions_and_none() -> None:
    deep = np.arange(2, dtype=np.int8).reshape((1,) * 63 + (2,))
    assert np.from_dlpack(hurray.from_numpy(deep)).shape == deep.shape
    scalar = np.from_dlpack(hurray.from_numpy(np.array(2.5)))
    assert scalar.shape == ()
    assert scalar[()] == 2.5


def test_versions_and_names() -> None:
    tensor = hurray.arange(3)
    for version, name in (
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
    ):
        assert capi.capsule_name(tensor.__dlpack__(max_version=version)) == name
    managed = struct(capsule := tensor.__dlpack__(max_version=(1, 1)))
    assert managed.major == 1
    assert managed.flags == capi.READ_ONLY
    assert managed.deleter
    del capsule


def test_the_older_form_is_a_copy_because_it_cannot_say_read_only() -> None:
    array = np.arange(3.0)
    tensor = hurray.from_numpy(array)
    dl = struct(capsule := tensor.__dlpack__()).dl_tensor
    assert dl.data != address(array)
    got = hurray.from_dlpack(capsule).to_numpy()
    assert got.tolist() == [0, 1, 2]
    with pytest.raises(builtins.BufferError, match="read-only"):
        tensor.__dlpack__(copy=False)


def test_copy_true_gives_writable_memory() -> None:
    array = np.arange(3.0)
    tensor = hurray.from_numpy(array)
    got = np.from_dlpack(tensor, copy=True)
    assert address(got) != address(array)
    if got.flags.writeable:  # NumPy 2.1 asks for the older form, whose memory it never writes to
        got[0] = 9
    assert array[0] == 0
    assert tensor.to_numpy()[0] == 0
    managed = struct(capsule := tensor.__dlpack__(max_version=(1, 0), copy=True))
    assert managed.flags == capi.COPIED
    del capsule


def test_backwards_memory_is_copied_unless_forbidden() -> None:
    array = np.arange(4.0)[::-1]
    tensor = hurray.from_numpy(array)
    dl = struct(first := tensor.__dlpack__(max_version=(1, 0))).dl_tensor
    assert (ctypes.c_int64 * 1).from_address(dl.strides)[0] == 1
    dl = struct(second := tensor.__dlpack__(max_version=(1, 0), copy=False)).dl_tensor
    assert (ctypes.c_int64 * 1).from_address(dl.strides)[0] == -1
    assert dl.data == address(array)
    del first, second


def test_device_requests() -> None:
    tensor = hurray.arange(3)
    assert tensor.__dlpack_device__() == (1, 0)
    tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    with pytest.raises(builtins.BufferError, match="device"):
        tensor.__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    for bad in ({"dl_device": 1}, {"stream": "x"}, {"stream": True}, {"max_version": 1}, {"copy": 1}):
        with pytest.raises(TypeError):
            tensor.__dlpack__(**bad)


def test_other_devices_are_named_and_their_offset_is_kept() -> None:
    data = np.arange(8, dtype=np.float32)
    tensor = hurray.Tensor(data, hurray.float32, [3], hurray.Device("cuda", 1), byte_offset=8)
    assert tensor.__dlpack_device__() == (2, 1)
    dl = struct(capsule := tensor.__dlpack__(max_version=(1, 0), stream=-1)).dl_tensor
    assert (dl.device_type, dl.device_id, dl.data, dl.byte_offset) == (2, 1, address(data), 8)
    with pytest.raises(hurray.UnsupportedError, match="CUDA"):
        hurray.from_dlpack(capsule)
    for forbidden in ({"copy": True}, {}):
        with pytest.raises(builtins.BufferError):
            tensor.__dlpack__(**forbidden)
    with pytest.raises(hurray.UnsupportedError):
        hurray.Tensor(data, hurray.float32, [3], hurray.Device("cuda", 0, "peer")).__dlpack_device__()


@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
def test_data_that_is_not_ready_does_not_leave(mode: str) -> None:
    descriptor = Descriptor.build(
        dtype=hurray.float32,
        shape=(2,),
        layout=hurray.RowMajorLayout(),
        buffer_sizes=(8,),
        device=hurray.Device("cuda"),
        sync_mode=mode,
    )
    tensor = hurray.Tensor._from_parts(descriptor, [np.zeros(8, np.uint8)])
    for stream in (None, -1, 7):
        with pytest.raises(builtins.BufferError, match=mode.split("_")[0]):
            tensor.__dlpack__(stream=stream, max_version=(1, 0))


def test_refusals_name_the_reason() -> None:
    tiled = hurray.arange(16).to_layout("tiled", tile_shape=[4])
    quantized = hurray.Tensor(bytes(4), hurray.int8, [4], quantization=hurray.PerTensorAffine(0.5, 0))
    sparse = hurray.sparse_coo(np.ones(1), np.zeros((1, 2), np.uint64), (2, 2))
    dynamic = hurray.Tensor(bytes(16), hurray.float32, [None])
    with pytest.raises(builtins.BufferError, match="coo"):
        sparse.__dlpack__(max_version=(1, 0))
    with pytest.raises(builtins.BufferError, match="tiled"):
        tiled.__dlpack__(max_version=(1, 0))
    with pytest.raises(builtins.BufferError, match="dynamic"):
        dynamic.__dlpack__(max_version=(1, 0))
    with pytest.raises(hurray.UnsupportedError, match=r"dequantize\(\).*storage\(\)"):
        quantized.__dlpack__(max_version=(1, 0))


# Lifetime


def test_memory_lives_as_long_as_the_capsule_or_the_consumer() -> None:
    array = np.arange(5.0)
    alive = weakref.ref(array)
    capsule = hurray.from_numpy(array).__dlpack__(max_version=(1, 0))
    del array
    assert alive() is not None
    del capsule
    assert alive() is None

    array = np.arange(5.0)
    alive = weakref.ref(array)
    got = np.from_dlpack(hurray.from_numpy(array))
    del array
    assert got.tolist() == [0, 1, 2, 3, 4]
    part = got[1:2]
    del got
    assert alive() is not None
    assert part[0] == 1
    del part
    assert alive() is None


def test_an_exception_on_its_way_survives_a_dying_capsule() -> None:
    # The consumer drops the capsule while its own error is set; a callback into Python would lose that error.
    tensor = hurray.from_numpy(np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises((RuntimeError, builtins.BufferError), match="Unsupported dtype"):
        np.from_dlpack(tensor)
    with pytest.raises(TypeError, match="len"):
        len(tensor.__dlpack__())


def test_consumers_die_on_any_thread() -> None:
    arrays = [np.arange(4.0) for _ in range(40)]
    alive = [weakref.ref(a) for a in arrays]
    boxes = [[np.from_dlpack(hurray.from_numpy(a))] for a in arrays]
    arrays.clear()
    threads = [threading.Thread(target=box.clear) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ref() is None for ref in alive)


def test_capsules_and_consumers_left_at_exit_do_no_harm() -> None:
    code = (
        "import hurray, numpy as np, atexit\n"
        "t = hurray.from_numpy(np.arange(1000.))\n"
        "left = t.__dlpack__(max_version=(1, 0)); older = t.__dlpack__(); native = t.__hurray__()\n"
        "taken = np.from_dlpack(t); mine = hurray.from_dlpack(np.arange(3)); twin = hurray.from_hurray(t)\n"
        "np.left = t.__dlpack__(max_version=(1, 0)); np.native = t.__hurray__(); np.taken = hurray.from_hurray(t)\n"
        "atexit.register(lambda: hurray.from_hurray(t))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=helpers.our_env(), timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Import


@pytest.mark.parametrize("name", CROSSING)
def test_import_shares_memory(name: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(name)
    tensor = hurray.from_dlpack(array)
    assert tensor.dtype.name == name
    helpers.assert_same_bits(tensor.to_numpy(), array)
    assert address(tensor.to_numpy()) == address(array)
    assert not tensor.to_numpy().flags.writeable
    copied = hurray.from_dlpack(array, copy=True)
    assert address(copied.to_numpy()) != address(array)
    helpers.assert_same_bits(copied.to_numpy(), array)


def test_bool_is_packed() -> None:
    array = np.array([True, False, True])
    tensor = hurray.from_dlpack(array)
    assert tensor.dtype is hurray.bool
    assert tensor.to_numpy().tolist() == [True, False, True]
    with pytest.raises(hurray.CopyRequiredError):
        hurray.from_dlpack(array, copy=False)


@pytest.mark.parametrize(("code", "name"), [(10, "float8_e4m3"), (12, "float8_e5m2"), (14, "float8_e8m0")])
def test_one_byte_floats_come_in(code: int, name: str) -> None:
    raw = np.array([0x38, 0x40, 0x7E], np.uint8)
    tensor = hurray.from_dlpack(capi.lend(loan(raw, code, 8), raw, versioned=True))
    assert tensor.dtype.name == name
    assert tensor.buffer(0).to_numpy().tolist() == raw.tolist()


def test_a_capsule_is_consumed_once() -> None:
    capsule = np.arange(3.0).__dlpack__()
    first = hurray.from_dlpack(capsule)
    with pytest.raises(hurray.BufferError, match="consumed"):
        hurray.from_dlpack(capsule)
    assert first.to_numpy().tolist() == [0, 1, 2]


def test_older_producers_are_asked_in_their_own_words() -> None:
    array = np.arange(3, dtype=np.float32)

    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return array.__dlpack__()

    tensor = hurray.from_dlpack(Old(), copy=False)
    assert address(tensor.to_numpy()) == address(array)


def test_a_producers_copy_is_not_copied_again_and_not_taken_for_shared() -> None:
    array = np.arange(3, dtype=np.float32)
    make = lambda **_: capi.lend(loan(array), array, versioned=True, flags=capi.COPIED)  # noqa: E731
    assert address(hurray.from_dlpack(Exporter(make), copy=True).to_numpy()) == address(array)
    with pytest.raises(hurray.CopyRequiredError, match="producer"):
        hurray.from_dlpack(Exporter(make), copy=False)


@pytest.mark.parametrize("kind", [3, 11, 13])
def test_memory_that_the_cpu_reads_is_taken_and_its_struct_left_as_it_was(kind: int) -> None:
    array = np.arange(3, dtype=np.float32)
    capsule = capi.lend(loan(array)._replace(device=(kind, 2)), array, versioned=True)
    managed = struct(capsule)
    tensor = hurray.from_dlpack(capsule)
    assert tensor.to_numpy().tolist() == [0, 1, 2]
    assert tensor.device == hurray.device.cpu
    assert (managed.dl_tensor.device_type, managed.dl_tensor.device_id) == (kind, 2)


@pytest.mark.parametrize(("kind", "name"), [(2, "CUDA"), (8, "Metal"), (99, "unknown")])
def test_memory_elsewhere_is_refused_before_it_is_asked_for(kind: int, name: str) -> None:
    def never(**_: Any) -> Any:
        raise AssertionError("asked for a capsule")

    with pytest.raises(hurray.UnsupportedError, match=name):
        hurray.from_dlpack(Exporter(never, (kind, 0)))


def patched(**fields: Any) -> object:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    capsule = capi.lend(loan(array), array, versioned=True)
    managed = struct(capsule)
    for name, value in fields.items():
        target = managed if hasattr(managed, name) else managed.dl_tensor
        if name == "dims":
            (ctypes.c_int64 * 2).from_address(managed.dl_tensor.shape)[:] = value
        elif name == "steps":
            (ctypes.c_int64 * 2).from_address(managed.dl_tensor.strides)[:] = value
        else:
            setattr(target, name, value)
    return capsule


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"ndim": -1}, hurray.BufferError),
        ({"ndim": 65}, hurray.BufferError),
        ({"shape": None}, hurray.BufferError),
        ({"data": None}, hurray.BufferError),
        ({"dims": [-1, 3]}, hurray.BufferError),
        ({"dims": [2**40, 2**40]}, hurray.BufferError),
        ({"steps": [2**62, 1]}, hurray.BufferError),
        ({"lanes": 2}, hurray.UnsupportedError),
        ({"bits": 24}, hurray.UnsupportedError),
        ({"code": 3}, hurray.UnsupportedError),
        ({"code": 77}, hurray.UnsupportedError),
        ({"major": 2}, hurray.UnsupportedError),
        ({"device_type": 2}, hurray.UnsupportedError),
    ],
)
def test_insane_capsules_are_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        hurray.from_dlpack(patched(**fields))


def test_no_strides_mean_row_major_and_the_offset_counts() -> None:
    assert hurray.from_dlpack(patched(strides=None)).to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    moved = patched(byte_offset=4, dims=[1, 3])
    assert hurray.from_dlpack(moved).to_numpy().tolist() == [[1, 2, 3]]


def test_other_objects_are_type_errors() -> None:
    for bad in (3, object(), Exporter(lambda **_: 3)):
        with pytest.raises(TypeError):
            hurray.from_dlpack(bad)
    with pytest.raises(hurray.BufferError, match="other"):
        hurray.from_dlpack(capi.new_capsule(1, "other"))

    def broken(**_: Any) -> Any:
        raise TypeError("my own fault")

    with pytest.raises(TypeError, match="my own fault"):
        hurray.from_dlpack(Exporter(broken))


def test_the_producers_deleter_is_called_once() -> None:
    array = np.arange(3, dtype=np.float32)
    alive = weakref.ref(array)
    tensor = hurray.from_dlpack(capi.lend(loan(array), array, versioned=False))
    view = tensor.to_numpy()[1:]
    del array, tensor
    gc.collect()
    assert alive() is not None
    assert view.tolist() == [1, 2]
    del view
    assert alive() is None


def test_round_trip_through_ourselves() -> None:
    tensor = hurray.from_numpy(np.arange(6.0).reshape(2, 3).T)
    again = hurray.from_dlpack(tensor)
    assert again.layout == tensor.layout
    assert address(again.to_numpy()) == address(tensor.to_numpy())
    assert dlpack.device_of(again) == (1, 0)
