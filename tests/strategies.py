"""Hypothesis strategies that several suites share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import hurray
from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.devices import DEVICE_TAGS, Device
from hurray.dtypes.table import ALL_DTYPES
from hurray.quantization import SCHEMES

DIMS = st.integers(0, 2**64 - 2) | st.integers(0, 9) | st.none()
SMALL = st.integers(1, 9)
U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)


def shapes(min_rank: int, max_rank: int = 5, dims: st.SearchStrategy[Any] = DIMS) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(dims, min_size=min_rank, max_size=max_rank).map(tuple)


@st.composite
def tiled_layouts(draw: st.DrawFn, rank: int, depth: int = 0) -> hurray.TiledLayout:
    nested = depth < 7 and draw(st.integers(0, 3)) == 0
    outer = draw(st.sampled_from(["row_major", "col_major", "strided"]))
    inner = "tiled" if nested else draw(st.sampled_from(["row_major", "col_major", "strided"]))
    strides = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rank, max_size=rank)
    return hurray.TiledLayout(
        draw(st.lists(SMALL, min_size=rank, max_size=rank)),
        outer,
        inner,
        draw(strides) if outer == "strided" else None,
        draw(strides) if inner == "strided" else None,
        draw(tiled_layouts(rank, depth + 1)) if nested else None,
    )


@st.composite
def layouts_with_shapes(draw: st.DrawFn) -> tuple[Any, tuple[Any, ...]]:
    """Draw a layout of any kind with a shape that it can describe."""
    name = draw(st.sampled_from([*hurray.layouts.LAYOUTS_BY_NAME, "private"]))
    if name in ("row_major", "composite", "private"):
        shape = draw(shapes(0))
    elif name in ("csr", "csc"):
        shape = draw(shapes(2, 2))
    elif name == "csf":
        shape = draw(shapes(3))
    elif name == "block_paged":
        shape = draw(shapes(3, 3))
    elif name == "hilbert":
        order = draw(st.integers(1, 63))
        shape = (2**order,) * draw(st.integers(2, 4))
        return hurray.HilbertLayout(order, len(shape)), shape
    elif name == "morton":
        bits = draw(st.lists(st.integers(1, 70), min_size=1, max_size=4))
        shape = tuple(draw(st.none() | st.integers(0, min(2**b, 2**64 - 2))) for b in bits)
        return hurray.MortonLayout(bits), shape
    else:
        shape = draw(shapes(1))
    rank = len(shape)
    build: dict[str, Any] = {
        "row_major": hurray.RowMajorLayout,
        "col_major": hurray.ColMajorLayout,
        "strided": lambda: hurray.StridedLayout(
            draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rank, max_size=rank))
        ),
        "tiled": lambda: draw(tiled_layouts(rank)),
        "coo": lambda: hurray.CooLayout(draw(U64), draw(st.booleans())),
        "csr": lambda: hurray.CsrLayout(draw(U64)),
        "csc": lambda: hurray.CscLayout(draw(U64)),
        "csf": lambda: hurray.CsfLayout(draw(U64), draw(st.permutations(range(rank)))),
        "block_paged": lambda: hurray.BlockPagedLayout(
            draw(st.integers(1, 2**32 - 1)),
            draw(U64),
            0,
            draw(U32),
            draw(st.sampled_from(["key", "value", "fused"])),
            draw(st.none() | st.integers(0, 2**32 - 2)),
            draw(st.sampled_from(["uint32", "uint64"])),
        ),
        "composite": lambda: draw(composite_layouts()),
        "private": lambda: hurray.PrivateExtensionLayout(
            draw(st.integers(0xF0, 0xFE)), draw(U64), draw(st.binary(max_size=20))
        ),
    }
    return build[name](), shape


@st.composite
def composite_layouts(draw: st.DrawFn) -> hurray.CompositeLayout:
    rule = draw(st.sampled_from(["partition", "overlay", "group"]))
    op = draw(st.sampled_from(["replace", "add"])) if rule == "overlay" else None
    return hurray.CompositeLayout(rule, draw(st.integers(int(rule == "overlay"), 2**32 - 2)), op)


@st.composite
def devices(draw: st.DrawFn) -> Device:
    kind = draw(st.sampled_from([*DEVICE_TAGS, "private"]))
    if kind == "private":
        return Device(draw(st.integers(0xF0, 0xFE)), 0, draw(st.just("standard") | st.integers(0xF0, 0xFE)))
    while True:
        name = draw(st.sampled_from(["standard", "host_pinned", "unified", "peer"]))
        try:
            return Device(kind, 0, name)
        except hurray.InvalidDescriptorError:
            continue


@st.composite
def statistics(draw: st.DrawFn, nnz: int | None = None) -> hurray.Statistics:
    floats = st.floats(allow_nan=True)
    known: dict[str, Any] = {}
    if draw(st.booleans()):
        known["nnz"] = draw(U64) if nnz is None else nnz
    if draw(st.booleans()):
        known["sparsity_ratio"] = draw(st.floats(0, 1))
    if draw(st.booleans()):
        known.update(value_min=draw(floats), value_max=draw(floats), value_abs_max=draw(floats))
    if draw(st.booleans()):
        known.update(value_mean=draw(floats), value_stddev=draw(st.floats(0, None)))
    if draw(st.booleans()):
        low, high = sorted(draw(st.tuples(st.integers(0, 255), st.integers(0, 255))))
        known.update(nm_n=low, nm_m=high)
    if draw(st.booleans()):
        known.update(has_nan=draw(st.booleans()), has_inf=draw(st.booleans()))
    return hurray.Statistics(**known)


@st.composite
def extension_types(draw: st.DrawFn) -> hurray.ExtensionType:
    width = draw(st.sampled_from([1, 2, 4]) | st.integers(1, 2**28).map(lambda n: 8 * n))
    if draw(st.booleans()):
        return hurray.ExtensionType(width, is_signed=draw(st.booleans()))
    byte = st.integers(0, 255)
    return hurray.ExtensionType(
        width,
        is_float=True,
        sign_bits=draw(st.integers(0, 1)),
        exponent_bits=draw(byte),
        mantissa_bits=draw(byte),
        exponent_bias=draw(U32),
        has_nan=draw(st.booleans()),
        has_inf=draw(st.booleans()),
    )


@st.composite
def schemes(draw: st.DrawFn, shape: tuple[Any, ...], n_own: int) -> tuple[Any, Any, int]:
    """Draw a scheme that fits a shape, with a storage type, and the number of its parameter buffers."""
    axes = [k for k, n in enumerate(shape) if n is not None and n >= 16 and n % 16 == 0]
    names = ["per_tensor_affine"]
    if any(n is not None for n in shape):
        names.append("per_channel_affine")
    if axes:
        names += ["per_block_affine", "nf4", "mxfp"]
    name = draw(st.sampled_from(names))
    cls = next(c for c in SCHEMES.values() if c.name == name)
    storage = hurray.Dtype.from_name(draw(st.sampled_from(sorted(cls.storage_types))))
    if name == "per_tensor_affine":
        scale = draw(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool))
        return hurray.PerTensorAffine(scale, 1 if storage.is_signed else 2), storage, 0
    if name == "per_channel_affine":
        axis = draw(st.sampled_from([k for k, n in enumerate(shape) if n is not None]))
        if draw(st.booleans()):
            return hurray.PerChannelAffine.symmetric(axis, n_own), storage, 1
        second = draw(st.sampled_from([n_own, n_own + 1]))
        return hurray.PerChannelAffine.asymmetric(axis, n_own, second), storage, 1 + (second > n_own)
    axis = draw(st.sampled_from(axes))
    if name == "per_block_affine":
        scale_type = draw(st.sampled_from([hurray.float16, hurray.bfloat16, hurray.float32]))
        if draw(st.booleans()):
            return hurray.PerBlockAffine.symmetric(axis, 8, n_own, scale_type), storage, 1
        return hurray.PerBlockAffine.asymmetric(axis, 16, n_own, n_own + 1, scale_type), storage, 2
    made = hurray.NF4 if name == "nf4" else hurray.MXFP
    return made(axis, 16, n_own), storage, 1


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    """Draw a legal descriptor of any layout with any sections."""
    layout, shape = draw(layouts_with_shapes())
    private = draw(st.integers(0, 5)) == 0
    dtype = hurray.Dtype.from_tag(draw(st.integers(0xF0, 0xFE))) if private else draw(st.sampled_from(ALL_DTYPES))
    n_own = layout.buffer_count
    n_own = draw(st.integers(1, 4)) if n_own is None else n_own
    sections: dict[str, Any] = {}
    n_params = 0
    quantizable = layout.is_dense or layout.is_sparse
    if quantizable and not private and draw(st.booleans()):
        scheme, dtype, n_params = draw(schemes(shape, n_own))
        sections["quantization"] = scheme
    if layout.name not in ("csf", "block_paged") and None not in shape and draw(st.booleans()):
        offsets = [draw(st.integers(0, min(9, 2**64 - 2 - n))) for n in shape]
        parents = [draw(st.integers(o + n, min(o + n + 9, 2**64 - 2))) for o, n in zip(offsets, shape, strict=True)]
        sections["shard"] = hurray.Shard(parents, offsets)
    if draw(st.booleans()):
        sections["statistics"] = draw(statistics(layout.nnz if layout.is_sparse else None))
    if private:
        sections["extension_type"] = draw(extension_types())
    if not layout.is_virtual and draw(st.booleans()):
        sections["member_role"] = draw(st.sampled_from(["base", "correction"]))
    device = draw(devices())
    sizes = [draw(st.sampled_from([0, 1, 64]) | st.integers(0, 2**64 - 1)) for _ in range(n_own + n_params)]
    sync = (
        "producer_synced" if device.tag == 0 else draw(st.sampled_from(["producer_synced", "event", "consumer_stream"]))
    )
    handles = tuple(BufferHandle(n, 1 << draw(st.integers(6 if n else 0, 31)), device, sync) for n in sizes)
    if layout.is_dense and handles:
        sections["byte_offset"] = draw(st.integers(0, handles[0].byte_size))
    minor = draw(st.sampled_from([0, 0, 0, 1, 255]))
    return Descriptor(
        dtype=dtype,
        shape=shape,
        layout=layout,
        buffer_handles=handles,
        version=(1, minor),
        trailing=draw(st.binary(max_size=9)) if minor else b"",
        **sections,
    )
