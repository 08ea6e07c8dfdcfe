"""The tensor: what the constructor takes and refuses, what a tensor tells, and what it shares."""

from __future__ import annotations

import array
import builtins
import copy
import ctypes
import gc
import io
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from hurray import BufferError, InvalidDescriptorError, UnsupportedError

F32 = hurray.float32
PRIVATE = hurray.Dtype.from_tag(0xF1)


def tensor(**parts: Any) -> hurray.Tensor:
    return hurray.Tensor(np.arange(4, dtype=np.float32), F32, [2, 2], **parts)


def csr(**parts: Any) -> hurray.Tensor:
    aux = [np.array([0, 2, 1], np.uint64), np.array([0, 2, 3], np.uint64)]
    return hurray.Tensor(
        np.array([1.0, 2, 3]), hurray.float64, [2, 3], layout=hurray.CsrLayout(3), aux_buffers=aux, **parts
    )


def address(t: hurray.Tensor, k: int = 0) -> int:
    return int(t.buffer(k).to_numpy().ctypes.data)


# Buffers


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        lambda b: memoryview(b).cast("d"),
        lambda b: memoryview(b).cast("d", (2, 1)),
        lambda b: array.array("d", b),
        lambda b: (ctypes.c_double * 2).from_buffer_copy(b),
        lambda b: np.frombuffer(b, np.float64),
        lambda b: np.frombuffer(b, np.uint8).reshape(4, 4),
        lambda b: np.frombuffer(b, np.float64).copy().view(np.recarray),
        lambda b: hurray.from_numpy(np.frombuffer(b, np.uint8)),
        lambda b: hurray.from_numpy(np.frombuffer(b, np.float64)).buffer(0),
    ],
)
def test_any_contiguous_memory_is_taken(make: Any) -> None:
    data = np.array([1.5, -2.5]).tobytes()
    t = hurray.Tensor(make(data), hurray.float64, [2])
    assert t.to_numpy().tolist() == [1.5, -2.5]
    assert t.buffer(0).to_numpy().tobytes() == data
    assert not t.to_numpy().flags.writeable
    assert not t.buffer(0).to_numpy().flags.writeable


def test_memory_is_shared_and_kept_alive() -> None:
    source = np.arange(4, dtype=np.float32)
    t = hurray.Tensor(source, F32, [4])
    assert np.shares_memory(t.to_numpy(), source)
    source[1] = 9
    assert t.to_numpy().tolist() == [0, 9, 2, 3]
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is not None
    view = t.to_numpy()
    del t
    gc.collect()
    assert view.tolist() == [0, 9, 2, 3]
    del view
    gc.collect()
    assert gone() is None


def test_a_lent_bytearray_cannot_be_resized() -> None:
    source = bytearray(8)
    t = hurray.Tensor(source, F32, [2])
    with pytest.raises(builtins.BufferError):
        source.append(1)
    source[0:4] = np.float32(3).tobytes()
    assert t.to_numpy().tolist() == [3, 0]
    del t
    gc.collect()
    source.append(1)


@pytest.mark.parametrize("buffer", ["abc", None, 3, [1.0], object(), {1: 2}])
def test_objects_without_memory(buffer: Any) -> None:
    for call in (
        lambda: hurray.Tensor(buffer, hurray.uint8, [0]),
        lambda: hurray.Tensor(b"", hurray.uint8, [0], aux_buffers=[buffer]),
    ):
        with pytest.raises(BufferError, match=r"buffer [01]") as caught:
            call()
        assert isinstance(caught.value, TypeError)


def test_memory_that_cannot_be_shared() -> None:
    released = memoryview(b"abcd")
    released.release()
    wide = np.zeros((4, 4), np.float32)
    for buffer in (released, memoryview(b"abcd")[::2], wide[:, ::2], wide.T, np.array([object()])):
        with pytest.raises(BufferError):
            hurray.Tensor(buffer, F32, [1])


@pytest.mark.parametrize("aux", [b"abc", bytearray(3), memoryview(b"abc"), np.arange(3), "abc", 3])
def test_aux_buffers_are_a_sequence_of_buffers(aux: Any) -> None:
    with pytest.raises(BufferError) as caught:
        tensor(aux_buffers=aux)
    assert isinstance(caught.value, TypeError)
    assert tensor(aux_buffers=(b for b in [b"a", b"b"])).buffer_count == 3
    assert tensor(aux_buffers=[]).buffer_count == tensor(aux_buffers=None).buffer_count == 1


def test_tensors_as_buffers() -> None:
    whole = hurray.from_numpy(np.arange(6.0))
    t = hurray.Tensor(whole, hurray.float64, [2, 3], layout=hurray.ColMajorLayout())
    assert address(t) == address(whole)
    with pytest.raises(BufferError, match=r"give its buffer\(i\)"):
        hurray.Tensor(csr(), hurray.float64, [3])
    with pytest.raises(BufferError):
        hurray.Tensor(hurray.Tensor(bytes(16), F32, [2], byte_offset=8), F32, [2])


def test_arrays_that_plainly_mean_something_else() -> None:
    cases: list[tuple[Any, hurray.Dtype, list[int]]] = [
        (np.arange(4, dtype=">f4"), F32, [4]),
        (np.arange(4.0), F32, [4]),
        (np.arange(4), hurray.int32, [2, 2]),
        (np.array([True, False]), hurray.bool, [2]),
        (hurray.asarray([1, 2], dtype=hurray.dtype.int4).to_numpy(), hurray.dtype.int4, [2]),
    ]
    for buffer, dtype, shape in cases:
        with pytest.raises(BufferError, match="from_numpy"):
            hurray.Tensor(buffer, dtype, shape)
    # bits in other clothes are legal: words of packed elements, patterns of floats, raw bytes
    assert hurray.Tensor(np.array([0x76543210], np.int32), hurray.dtype.uint4, [8]).to_numpy().astype(int).tolist() == [
        0, 1, 2, 3, 4, 5, 6, 7,
    ]  # fmt: skip
    assert hurray.Tensor(np.array([0x3F800000], np.int32), F32, [1]).to_numpy().tolist() == [1]
    assert hurray.Tensor(np.array([True, False]), hurray.uint8, [2]).to_numpy().tolist() == [1, 0]
    assert hurray.Tensor(np.arange(2.0), F32, [4]).shape == (4,)
    with pytest.raises(BufferError, match="float64, not of float32"):
        hurray.Tensor(np.ones(3), F32, [2, 3], layout=hurray.CooLayout(3), aux_buffers=[np.zeros(6, np.uint64)])


# Arguments


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("f4"), None, 3])
def test_a_dtype_is_a_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"hurray\.Dtype"):
        hurray.Tensor(bytes(16), dtype, [4])


@pytest.mark.parametrize("shape", [4, "4", b"4", None, [4.0], ["4"], [True, 4], {4}, {4: 1}, [[4]]])
def test_a_shape_is_a_sequence_of_ints(shape: Any) -> None:
    with pytest.raises(TypeError):
        hurray.Tensor(bytes(16), F32, shape)


@pytest.mark.parametrize("shape", [(4,), [2, 2], np.array([2, 2]), (n for n in (4, 1)), range(4, 5), [np.int8(4)]])
def test_shapes_become_tuples_of_python_ints(shape: Any) -> None:
    t = hurray.Tensor(bytes(16), F32, shape)
    assert type(t.shape) is tuple
    assert all(type(n) is int for n in t.shape)
    assert t.size == 4


@pytest.mark.parametrize("n", [-1, 2**64 - 1, 2**64, 2**70])
def test_dimensions_have_64_bits(n: int) -> None:
    with pytest.raises(InvalidDescriptorError, match=r"shape\[1\]"):
        hurray.Tensor(b"", F32, [0, n])


def test_rank_is_at_most_64() -> None:
    assert hurray.Tensor(bytes(2), hurray.int16, [1] * 64).to_numpy().shape == (1,) * 64
    with pytest.raises(InvalidDescriptorError, match="at most 64"):
        hurray.Tensor(bytes(2), hurray.int16, [1] * 65)


def test_layouts() -> None:
    for layout in ("row_major", "csr", hurray.CsrLayout, 7):
        with pytest.raises(TypeError, match="Layout"):
            tensor(layout=layout)
    with pytest.raises(UnsupportedError, match="Composite"):
        tensor(layout=hurray.CompositeLayout("group", 1))
    with pytest.raises(InvalidDescriptorError, match="rank 2"):
        hurray.Tensor(bytes(16), F32, [4], layout=hurray.CsrLayout(4), aux_buffers=[bytes(32), bytes(40)])
    with pytest.raises(InvalidDescriptorError, match=r"needs 3 buffer\(s\), but 1 were supplied"):
        tensor(layout=hurray.CsrLayout(4))


def test_sections_have_their_classes() -> None:
    for name in ("statistics", "shard", "extension_type"):
        with pytest.raises(TypeError, match="hurray"):
            tensor(**{name: "x"})
    for scheme in ("nf4", 3, hurray.NF4, {"scale": 1}):
        with pytest.raises(InvalidDescriptorError, match="PerTensorAffine"):
            tensor(quantization=scheme)
    for device in ("cpu", 0, ("cuda", 0)):
        with pytest.raises(TypeError, match="Device"):
            hurray.Tensor(bytes(16), F32, [4], device)


def test_extension_type_goes_with_private_dtypes() -> None:
    with pytest.raises(InvalidDescriptorError, match="takes no extension type"):
        tensor(extension_type=hurray.ExtensionType(8))
    with pytest.raises(InvalidDescriptorError, match="needs an extension type"):
        hurray.Tensor(bytes(4), PRIVATE, [4])
    t = hurray.Tensor(bytes(2), PRIVATE, [16], extension_type=hurray.ExtensionType(1))
    assert t.extension_type == hurray.ExtensionType(1)
    with pytest.raises(BufferError, match="at least 3"):
        hurray.Tensor(bytes(2), PRIVATE, [17], extension_type=hurray.ExtensionType(1))


# Sizes


@pytest.mark.parametrize(
    ("layout", "shape", "needed"),
    [
        (hurray.RowMajorLayout(), (3, 5), 60),
        (hurray.ColMajorLayout(), (3, 5), 60),
        (hurray.StridedLayout([10, 2]), (3, 5), 4 * (20 + 8 + 1)),
        (hurray.StridedLayout([0, 0]), (3, 5), 4),
        (hurray.StridedLayout([7, 7]), (3, 0), 0),
        (hurray.TiledLayout([2, 2]), (3, 5), 4 * 4 * 6),
        (hurray.MortonLayout([2, 3]), (3, 5), 4 * 39),
        (hurray.MortonLayout([3, 3]), (3, 5), 4 * 64),
        (hurray.HilbertLayout(2, 2), (4, 4), 64),
    ],
)
def test_sizes_follow_the_layout(layout: Any, shape: tuple[int, ...], needed: int) -> None:
    t = hurray.Tensor(bytes(max(needed, 4 * 32 if "Morton" in repr(layout) else 0)), F32, shape, layout=layout)
    assert t.shape == shape
    if needed and "Morton" not in repr(layout):
        with pytest.raises(BufferError, match=rf"buffer 0 \(data\) has {needed - 1} bytes, but .* at least {needed}"):
            hurray.Tensor(bytes(needed - 1), F32, shape, layout=layout)
        hurray.Tensor(bytes(needed + 9), F32, shape, layout=layout)


def test_errors_name_buffer_role_size_and_need() -> None:
    values, columns, rows = bytes(24), bytes(24), bytes(24)
    for k, (role, buffers) in enumerate(
        [
            ("values", (values[1:], columns, rows)),
            ("col_indices", (values, columns[1:], rows)),
            ("row_ptr", (values, columns, rows[1:])),
        ]
    ):
        with pytest.raises(BufferError, match=rf"buffer {k} \({role}\) has 23 bytes, .* at least 24"):
            hurray.Tensor(buffers[0], hurray.float64, [2, 3], layout=hurray.CsrLayout(3), aux_buffers=buffers[1:])


@pytest.mark.parametrize(
    ("dtype", "shape"), [(F32, (2**63, 2)), (F32, (2**32, 2**32)), (hurray.int8, (2**64 - 2, 2**64 - 2))]
)
def test_sizes_beyond_64_bits(dtype: hurray.Dtype, shape: tuple[int, ...]) -> None:
    with pytest.raises(BufferError):
        hurray.Tensor(bytes(16), dtype, shape)
    empty = hurray.Tensor(b"", dtype, (*shape, 0))
    assert empty.size == 0
    assert repr(empty).startswith("hurray.Tensor(")


@pytest.mark.parametrize(
    ("dtype", "byte_offset", "n_bytes", "shape"),
    [
        ("int4", 3, 5, (4,)),
        ("bool", 1, 3, (9,)),
        ("uint2", 2, 3, (4,)),
        ("float6_e3m2", 5, 8, (3,)),
        ("int8", 4, 4, (0,)),
    ],
)
def test_byte_offsets(dtype: str, byte_offset: int, n_bytes: int, shape: tuple[int, ...]) -> None:
    kind = getattr(hurray.dtype, dtype)
    rng = np.random.default_rng(0)
    data = rng.bytes(n_bytes)
    t = hurray.Tensor(data, kind, shape, byte_offset=byte_offset)
    plain = hurray.Tensor(data[byte_offset:], kind, shape)
    assert t.descriptor.byte_offset == byte_offset
    assert t.to_numpy().tobytes() == plain.to_numpy().tobytes()
    if shape != (0,):
        with pytest.raises(BufferError):
            hurray.Tensor(data[:-1], kind, shape, byte_offset=byte_offset)
    with pytest.raises(InvalidDescriptorError, match="byte_offset"):
        hurray.Tensor(data, kind, (0,), byte_offset=n_bytes + 1)


def test_byte_offsets_are_ints_of_dense_layouts() -> None:
    for offset, error in (
        (-1, InvalidDescriptorError),
        (2**64, InvalidDescriptorError),
        (1.0, TypeError),
        ("1", TypeError),
    ):
        with pytest.raises(error):
            hurray.Tensor(bytes(4), hurray.int8, [1], byte_offset=offset)
    with pytest.raises(InvalidDescriptorError, match="byte_offset 0"):
        csr(byte_offset=8)


def test_extra_buffers_stay_in_memory() -> None:
    t = tensor(aux_buffers=[b"abc"])
    assert t.buffer_count == 2
    assert t.buffer(1).to_numpy().tobytes() == b"abc"
    assert t.to_numpy().tolist() == [[0, 1], [2, 3]]
    assert copy.deepcopy(t).buffer_count == 2
    assert t.descriptor == tensor(aux_buffers=[b"xyz"]).descriptor
    for encode in (
        t.descriptor.encode,
        lambda: pickle.dumps(t),
        lambda: hurray.save(io.BytesIO(), {"t": t}),
        lambda: hurray.StreamWriter().write(t),
    ):
        with pytest.raises(InvalidDescriptorError, match="exactly 1 buffers?, but the table has 2"):
            encode()
    with pytest.raises(InvalidDescriptorError, match="at most 255"):
        tensor(aux_buffers=[b""] * 255)
    assert tensor(aux_buffers=[b""] * 254).buffer_count == 255
    opaque = hurray.Tensor(b"", F32, [9], layout=hurray.PrivateExtensionLayout(0xF1, 7), aux_buffers=[b"a", b"b"])
    assert hurray.Descriptor.decode(opaque.descriptor.encode()).buffer_count == 3


def test_scheme_limits_and_indices() -> None:
    def made(scheme: Any, *aux: bytes, dtype: hurray.Dtype = hurray.int8) -> hurray.Tensor:
        return hurray.Tensor(bytes(16), dtype, [4, 4], quantization=scheme, aux_buffers=aux)

    channel = hurray.PerChannelAffine.symmetric
    assert made(channel(0, 1), bytes(16)).quantization == channel(0, 1)
    for scheme, aux, match in [
        (channel(0, 1), (), "outside a table of 1"),
        (channel(0, 2), (bytes(16),), "outside a table of 2"),
        (channel(0, 0), (bytes(16),), "names a buffer of the layout"),
        (channel(2, 1), (bytes(16),), "axis 2"),
        (hurray.PerTensorAffine(0.5, 128), (), "zero_point 128"),
        (hurray.NF4(1, 8, 1), (bytes(16),), "nf4"),
    ]:
        with pytest.raises(InvalidDescriptorError, match=match):
            made(scheme, *aux)
    for n in (15, 17):
        with pytest.raises(BufferError, match=rf"buffer 1 \(scales\) has {n} bytes, .* exactly 16"):
            made(channel(0, 1), bytes(n))
    with pytest.raises(InvalidDescriptorError, match="cannot store float32"):
        tensor(quantization=hurray.PerTensorAffine(0.5, 0))


def test_shards_and_statistics_are_checked() -> None:
    assert tensor(shard=hurray.Shard([4, 4], [2, 2])).shard == hurray.Shard([4, 4], [2, 2])
    with pytest.raises(InvalidDescriptorError, match="sticks out"):
        tensor(shard=hurray.Shard([4, 4], [3, 0]))
    with pytest.raises(InvalidDescriptorError, match="layout's nnz is 3"):
        csr(statistics=hurray.Statistics(nnz=2))
    assert csr(statistics=hurray.Statistics(nnz=3)).statistics == hurray.Statistics(nnz=3)


# Devices


def test_devices() -> None:
    t = tensor()
    assert t.device == hurray.device.cpu
    assert t.buffer_handles[0].device is t.device
    cuda = hurray.Tensor(bytes(16), F32, [4], hurray.Device("cuda", 3, "unified"))
    assert cuda.device == hurray.Device("cuda", 3, "unified")
    assert cuda.descriptor.device == hurray.Device("cuda", 0, "unified")
    assert hurray.Tensor(bytes(16), F32, [4], hurray.Device("cuda", 3), device_id=5).device.device_id == 5
    assert cuda.buffer(0).device == cuda.device
    private = hurray.Tensor(bytes(16), F32, [4], hurray.Device(0xF1, 2, 0xF2))
    assert private.device == hurray.Device(0xF1, 2, 0xF2)
    for bad in (-1, 2**31):
        with pytest.raises(InvalidDescriptorError):
            hurray.Tensor(bytes(16), F32, [4], device_id=bad)
    # the ordinal lives in memory only
    target = io.BytesIO()
    hurray.save(target, {"t": cuda})
    assert hurray.load(target)["t"].descriptor.device == hurray.Device("cuda", 0, "unified")


# Dynamic shapes


@pytest.fixture
def dynamic() -> hurray.Tensor:
    return hurray.Tensor(bytes(24), F32, [None, 3])


def test_dynamic_shapes_are_carried(dynamic: hurray.Tensor, tmp_path: Path) -> None:
    assert (dynamic.shape, dynamic.ndim, dynamic.size, dynamic.nbytes) == ((None, 3), 2, None, 24)
    assert repr(dynamic) == str(dynamic) == f"hurray.Tensor(shape=(None, 3), dtype=float32, device={dynamic.device!r})"
    dynamic.validate()
    for other in (copy.copy(dynamic), copy.deepcopy(dynamic), pickle.loads(pickle.dumps(dynamic))):
        assert other.descriptor == dynamic.descriptor
        assert other.buffer(0).to_numpy().tobytes() == bytes(24)
    hurray.save(tmp_path / "d.hrry", {"d": dynamic})
    assert hurray.load(tmp_path / "d.hrry")["d"].shape == (None, 3)
    assert hurray.verify(tmp_path / "d.hrry").ok
    with hurray.StreamWriter() as writer:
        writer.write(dynamic)
    (back,) = hurray.StreamReader(writer.getvalue())
    assert back.descriptor == dynamic.descriptor
    assert hurray.from_hurray(dynamic).shape == (None, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.to_numpy(),
        lambda t: np.asarray(t),
        lambda t: t[0],
        lambda t: t[...],
        lambda t: len(t),
        lambda t: list(t),
        lambda t: t.lookup([[0, 0]]),
        lambda t: t.nonzeros(),
        lambda t: t.to_layout("col_major"),
        lambda t: t.transpose(),
        lambda t: hurray.compute_statistics(t),
    ],
)
def test_nothing_is_computed_from_dynamic_shapes(dynamic: hurray.Tensor, call: Any) -> None:
    with pytest.raises(UnsupportedError, match="dynamic"):
        call(dynamic)


def test_other_refusals_of_dynamic_shapes(dynamic: hurray.Tensor) -> None:
    with pytest.raises(builtins.BufferError, match="dynamic"):
        dynamic.__dlpack__()
    with pytest.raises(ValueError, match="known shape"):
        _ = dynamic.T
    with pytest.raises(InvalidDescriptorError, match="dynamic"):
        hurray.Tensor(bytes(24), F32, [None, 3], shard=hurray.Shard([8, 3], [0, 0]))
    scheme = hurray.PerChannelAffine.symmetric
    with pytest.raises(InvalidDescriptorError, match="dynamic"):
        hurray.Tensor(bytes(6), hurray.int8, [None, 3], quantization=scheme(0, 1), aux_buffers=[bytes(8)])
    kept = hurray.Tensor(bytes(6), hurray.int8, [None, 3], quantization=scheme(1, 1), aux_buffers=[bytes(12)])
    with pytest.raises(UnsupportedError):
        kept.dequantize()
    for make in (hurray.zeros_like, hurray.ones_like, hurray.empty_like):
        with pytest.raises(InvalidDescriptorError, match=r"shape\[0\] is None"):
            make(dynamic)


# Likeness


def test_tensors_are_compared_by_identity() -> None:
    a, b = tensor(), tensor()
    assert a == a
    assert a != b
    assert len({a, b}) == 2
    assert copy.copy(a) is a


def test_immutable() -> None:
    t = tensor()
    for name in ("shape", "_descriptor", "_buffers", "new", "T"):
        with pytest.raises(AttributeError, match=name):
            setattr(t, name, 1)
        with pytest.raises(AttributeError, match=name):
            delattr(t, name)
    with pytest.raises(ValueError, match="read-only"):
        t.to_numpy()[0, 0] = 1
    with pytest.raises(ValueError):
        t.to_numpy().flags.writeable = True


def test_deep_copies_are_apart() -> None:
    source = np.arange(4, dtype=np.float32)
    t = hurray.Tensor(source, F32, [4], hurray.Device("cuda", 2))
    other = copy.deepcopy(t)
    source[0] = 9
    assert other.to_numpy().tolist() == [0, 1, 2, 3]
    assert other.device == t.device
    assert copy.deepcopy({"a": t, "b": [t]})["a"] is not t


def test_a_copy_of_a_borrowed_view_gives_nothing_away() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    t = hurray.from_numpy(whole[:, ::2])
    for made in (t, t.T, copy.deepcopy(t), copy.deepcopy(t).T, t.transpose(1, 0), pickle.loads(pickle.dumps(t))):
        target = io.BytesIO()
        hurray.save(target, {"t": made})
        back = hurray.load(target)["t"]
        assert back.to_numpy().tolist() in (whole[:, ::2].tolist(), whole[:, ::2].T.tolist())
        assert whole[0, 1].tobytes() not in target.getvalue()


def test_a_tensor_without_parts_does_not_recurse() -> None:
    bare = object.__new__(hurray.Tensor)
    for name in ("shape", "layout", "pos", "anything", "_descriptor"):
        with pytest.raises(AttributeError):
            getattr(bare, name)


def test_many_threads_may_check_one_tensor() -> None:
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((300, 200)) < 0.1, rng.random((300, 200)), 0)
    for _ in range(3):
        sparse = pickle.loads(pickle.dumps(hurray.from_numpy(dense).to_layout("csr")))
        barrier = threading.Barrier(6)
        results: list[Any] = []

        def read(t: Any = sparse, start: Any = barrier, into: Any = results) -> None:
            start.wait()
            into.append(t.to_numpy())

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 6
        assert all((r == dense).all() for r in results)


# Parts


def test_buffer() -> None:
    t = csr()
    assert [t.buffer(k).shape for k in range(3)] == [(24,), (24,), (24,)]
    assert t.buffer(index=2).to_numpy().view(np.uint64).tolist() == [0, 2, 3]
    assert t.buffer(np.int64(0)).dtype is hurray.uint8
    for k in (3, -1, 2**70):
        with pytest.raises(IndexError, match="has 3"):
            t.buffer(k)
    for k in ("0", 0.0, None):
        with pytest.raises(TypeError):
            t.buffer(k)  # type: ignore[arg-type]


def test_transposed_views() -> None:
    t = tensor()
    assert t.T.layout == hurray.ColMajorLayout()
    assert t.T.T.layout == hurray.RowMajorLayout()
    assert address(t.T) == address(t)
    assert t.T.to_numpy().tolist() == [[0, 2], [1, 3]]
    strided = hurray.Tensor(bytes(range(16)), hurray.uint8, [2, 3], layout=hurray.StridedLayout([-8, 2]), byte_offset=8)
    assert strided.T.layout == hurray.StridedLayout([2, -8])
    assert (strided.T.to_numpy() == strided.to_numpy().T).all()
    assert csr().T.layout == hurray.CscLayout(3)
    assert csr().T.T.layout == hurray.CsrLayout(3)
    assert (csr().T.to_numpy() == csr().to_numpy().T).all()
    assert address(csr(), 1) != address(csr().T, 0)
    sharded = tensor(shard=hurray.Shard([4, 6], [1, 2])).T
    assert sharded.shard == hurray.Shard([6, 4], [2, 1])
    packed = hurray.asarray(np.arange(6).reshape(2, 3), dtype=hurray.dtype.int4)
    assert (packed.T.to_numpy().astype(int) == np.arange(6).reshape(2, 3).T).all()
    private = hurray.Tensor(bytes(8), PRIVATE, [2, 4], extension_type=hurray.ExtensionType(8))
    assert private.T.shape == (4, 2)


def test_transposes_that_are_no_views() -> None:
    for t in (
        hurray.zeros([4]),
        hurray.zeros([1, 2, 3]),
        hurray.zeros([]),
        hurray.zeros([4, 4]).to_layout("tiled", tile_shape=[2, 2]),
        hurray.Tensor(bytes(8), F32, [2, 1], layout=hurray.PrivateExtensionLayout(0xF1, 1)),
    ):
        with pytest.raises(ValueError):
            _ = t.T


def test_arrays() -> None:
    t = tensor()
    assert np.shares_memory(np.asarray(t), np.asarray(t))
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.asarray(t, dtype=np.float32, copy=False).dtype == np.float32
    own = np.array(t, copy=True)
    assert own.flags.writeable
    own[...] = 7
    assert t.to_numpy().tolist() == [[0, 1], [2, 3]]
    with pytest.raises(hurray.CopyRequiredError):
        t.__array__(np.float64, copy=False)
    packed = hurray.asarray([True, False, True])
    assert np.asarray(packed).tolist() == [True, False, True]
    with pytest.raises(hurray.CopyRequiredError):
        packed.__array__(copy=False)
    tiled = hurray.from_numpy(np.arange(16.0).reshape(4, 4)).to_layout("tiled", tile_shape=[2, 2])
    assert np.asarray(tiled).tolist() == np.arange(16.0).reshape(4, 4).tolist()
    with pytest.raises(hurray.CopyRequiredError):
        tiled.__array__(copy=False)


def test_arrays_are_not_made_of_everything() -> None:
    paged = hurray.Tensor(
        bytes(32), F32, [2, 2, 2], layout=hurray.BlockPagedLayout(2, 1, 0, 1),
        aux_buffers=[np.zeros(1, np.uint32), np.array([0, 1], np.uint32)],
    )  # fmt: skip
    opaque = hurray.Tensor(bytes(8), F32, [2], layout=hurray.PrivateExtensionLayout(0xF1, 1))
    for t, match in ((csr(), "csr"), (paged, "block_paged"), (opaque, "extension")):
        with pytest.raises(UnsupportedError, match=match):
            np.asarray(t)
    quantized = hurray.Tensor(bytes(4), hurray.int8, [4], quantization=hurray.PerTensorAffine(0.5, 0))
    with pytest.raises(UnsupportedError, match=r"dequantize\(\).*storage\(\)"):
        np.asarray(quantized)
    assert paged.to_numpy().shape == (2, 2, 2)
    assert csr().to_numpy().tolist() == [[1, 0, 2], [0, 3, 0]]


def test_private_and_opaque_tensors_are_carried() -> None:
    for t in (
        hurray.Tensor(b"\1\2\3\4\5\6", PRIVATE, [2], extension_type=hurray.ExtensionType(24)),
        hurray.Tensor(b"abcd", F32, [9, 9], layout=hurray.PrivateExtensionLayout(0xF0, 1, b"x"), aux_buffers=[b"z"]),
        hurray.Tensor(
            b"abc", PRIVATE, [5], layout=hurray.CooLayout(1), aux_buffers=[np.array([4], np.uint64)],
            extension_type=hurray.ExtensionType(24),
        ),
    ):  # fmt: skip
        t.validate()
        target = io.BytesIO()
        hurray.save(target, {"t": t})
        back = hurray.load(target)["t"]
        assert back.descriptor == t.descriptor
        assert [back.buffer(k).to_numpy().tobytes() for k in range(back.buffer_count)] == [
            t.buffer(k).to_numpy().tobytes() for k in range(t.buffer_count)
        ]
        for call in (t.to_numpy, lambda x=t: x[0], t.nonzeros, lambda x=t: x.lookup([[0]])):
            with pytest.raises((UnsupportedError, IndexError)):
                call()


@pytest.mark.parametrize(
    "key", [(slice(None), 1), (0, 0), (..., -1), ([1, 0], [0, 1]), (None, 0), np.array([True, False])]
)
def test_keys_read_like_numpy(key: Any) -> None:
    values = np.arange(4, dtype=np.float32).reshape(2, 2)
    got = tensor()[key]
    assert np.array_equal(got, values[key])
    assert np.asarray(got).dtype == np.float32


def test_iteration_and_length() -> None:
    assert len(tensor()) == 2
    assert [row.tolist() for row in tensor()] == [[0, 1], [2, 3]]
    assert bool(hurray.zeros([0]))
    for call in (len, iter, list):
        with pytest.raises(TypeError):
            call(hurray.zeros([]))
