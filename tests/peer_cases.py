"""Tensors of every kind that the published binding can author, made by code that runs in both processes.

Everything is drawn from a seeded generator, so that both processes make equal tensors; buffers hold random bytes, index
buffers legal content.
"""

from __future__ import annotations

#: defines ``cases(hurray, seed)``, which yields pairs of a name and a Tensor or Composite
CASES = r'''
import numpy as np

DTYPES = """float16 bfloat16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool float8_e4m3
float8_e5m2 float8_e8m0 float4_e2m1 float6_e2m3 float6_e3m2 float128 int4 uint4 int2 uint2
complex64 complex128""".split()
DEVICES = [("cpu", "standard"), ("cpu", "host_pinned"), ("cpu", "unified"), ("cuda", "standard"),
    ("cuda", "host_pinned"), ("cuda", "unified"), ("cuda", "peer"), ("rocm", "peer"), ("metal", "unified"),
    ("vulkan", "host_pinned"), ("webgpu", "standard"), ("hexagon", "unified"), ("level_zero", "peer"),
    ("opencl", "standard"), (0xF1, 0xF2), (0xFE, "standard")]

def u64(values):
    return np.asarray(values, np.uint64).tobytes()

def sparse_matrix(rng):
    rows, cols = (int(n) for n in rng.integers(1, 7, 2))
    mask = rng.random((rows, cols)) < 0.4
    return (rows, cols), mask

def csf_buffers(mask, order):
    coords = np.argwhere(mask.transpose(order))
    rank, nnz = mask.ndim, len(coords)
    prefixes = [np.unique(coords[:, : level + 1], axis=0) for level in range(rank)]
    counts, buffers = [1], []
    for level, nodes in enumerate(prefixes):
        parents = prefixes[level - 1] if level else None
        if level == 0:
            ptr = [0, len(nodes)]
        else:
            ptr = [0]
            for parent in parents:
                ptr.append(ptr[-1] + int((nodes[:, :level] == parent).all(axis=1).sum()))
        buffers += [u64(ptr), u64(nodes[:, level])]
    return nnz, buffers

def layouts(hurray, rng):
    """Yield (name, layout, shape, number of stored elements, auxiliary buffers)."""
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
    size = int(np.prod(shape))
    yield "row_major", hurray.RowMajorLayout(), shape, size, []
    yield "col_major", hurray.ColMajorLayout(), shape, size, []
    strides = [int(s) for s in np.cumprod([1, *shape[:-1]]) * 2]
    yield "strided", hurray.StridedLayout(strides), shape, 2 * size, []
    tile = [int(n) for n in rng.integers(1, 4, len(shape))]
    stored = int(np.prod([-(-n // t) * t for n, t in zip(shape, tile)]))
    yield "tiled", hurray.TiledLayout(tile, "col_major", "row_major"), shape, stored, []
    nested = hurray.TiledLayout([1] * len(shape), "row_major", "col_major")
    yield "nested", hurray.TiledLayout(tile, "row_major", "tiled", None, None, nested), shape, stored, []
    bits = int(rng.integers(1, 4))
    box = tuple(int(n) for n in rng.integers(1, 2**bits + 1, 2))
    yield "morton", hurray.MortonLayout([bits, bits]), box, 4**bits, []
    yield "hilbert", hurray.HilbertLayout(bits, 2), (2**bits, 2**bits), 4**bits, []
    shape, mask = sparse_matrix(rng)
    coords = np.argwhere(mask)
    nnz = len(coords)
    yield "coo", hurray.CooLayout(nnz, True), shape, nnz, [u64(coords)]
    shuffled = coords[rng.permutation(nnz)]
    yield "coo_unsorted", hurray.CooLayout(nnz), shape, nnz, [u64(shuffled)]
    rows = [0, *np.cumsum(mask.sum(axis=1))]
    yield "csr", hurray.CsrLayout(nnz), shape, nnz, [u64(coords[:, 1]), u64(rows)]
    by_column = np.argwhere(mask.T)
    yield "csc", hurray.CscLayout(nnz), shape, nnz, [u64(by_column[:, 1]), u64([0, *np.cumsum(mask.sum(axis=0))])]
    cube = rng.random(tuple(int(n) for n in rng.integers(1, 5, 3))) < 0.3
    order = [int(k) for k in rng.permutation(3)]
    nnz, buffers = csf_buffers(cube, order)
    yield "csf", hurray.CsfLayout(nnz, order), cube.shape, nnz, buffers
    for width, kind in ((np.uint32, "uint32"), (np.uint64, "uint64")):
        pages, size, heads, dim = (int(n) for n in rng.integers(1, 4, 4))
        table = rng.integers(0, pages, int(rng.integers(1, 5))).astype(width)
        ptr = np.array([0, len(table) // 2, len(table)], width)
        role, layer = ["key", "value", "fused"][pages - 1], [None, 7][size % 2]
        layout = hurray.BlockPagedLayout(size, pages, 0, 2, role, layer, kind)
        shape = (len(table) * size, heads, dim)
        yield "paged_" + kind, layout, shape, pages * size * heads * dim, [table.tobytes(), ptr.tobytes()]
    extra = [bytes(rng.bytes(int(n))) for n in rng.integers(0, 9, int(rng.integers(0, 3)))]
    layout = hurray.PrivateExtensionLayout(0xF0 + int(rng.integers(0, 15)), int(rng.integers(0, 2**63)), rng.bytes(5))
    yield "private", layout, (2, 3), 6, extra

def filled(hurray, rng, dtype, count):
    data = bytearray(rng.bytes(hurray.buffer_size_bytes(dtype, count)))
    bits = dtype.bit_width
    if bits < 8 and count:  # the unused bits of the last byte or group are zero
        group = 3 if bits == 6 else 1
        per_group = 4 if bits == 6 else 8 // bits
        left = count % per_group
        if left:
            last = int.from_bytes(data[-group:], "little") & ((1 << left * bits) - 1)
            data[-group:] = last.to_bytes(group, "little")
    return bytes(data)

def dense(hurray, rng, dtype, shape, **parts):
    return hurray.Tensor(filled(hurray, rng, dtype, int(np.prod(shape, dtype=object))), dtype, shape, **parts)

def every_layout(hurray, rng):
    for name in DTYPES:
        dtype = getattr(hurray.dtype, name)
        for kind, layout, shape, stored, aux in layouts(hurray, rng):
            data = filled(hurray, rng, dtype, stored)
            yield f"{kind} {name}", hurray.Tensor(data, dtype, shape, layout=layout, aux_buffers=aux)

def edges(hurray, rng):
    f32 = hurray.float32
    yield "scalar", hurray.Tensor(rng.bytes(4), f32, ())
    yield "empty", hurray.Tensor(b"", f32, (0, 3))
    yield "empty and long", hurray.Tensor(b"", hurray.int8, (2**40, 0))
    yield "rank 64", hurray.Tensor(rng.bytes(2), hurray.int16, [1] * 64)
    yield "dynamic", hurray.Tensor(rng.bytes(24), f32, (None, 3))
    yield "all dynamic", hurray.Tensor(rng.bytes(5), hurray.dtype.int4, (None, None))
    yield "padded", hurray.Tensor(rng.bytes(30), hurray.uint8, (7,))
    yield "n\u00e4me \u2603 " + "x" * 300, hurray.Tensor(rng.bytes(8), hurray.float64, (1,))
    for kind, memory_class in DEVICES:
        device = hurray.Device(kind, 0, memory_class)
        yield f"device {kind} {memory_class}", hurray.Tensor(rng.bytes(8), hurray.int8, (8,), device)
    half = dict(is_float=True, sign_bits=1, exponent_bits=5, mantissa_bits=10, exponent_bias=15, has_nan=True)
    for tag, width, extra in ((0xF0, 8, {}), (0xFE, 24, {"is_signed": True}), (0xF3, 4, {}), (0xF4, 1, {}),
        (0xF5, 16, half)):
        section = hurray.ExtensionType(width, **extra)
        data = rng.bytes(section.buffer_size_bytes(12))
        dtype = hurray.Dtype.from_tag(tag)
        yield f"extension {tag} {width}", hurray.Tensor(data, dtype, (3, 4), extension_type=section)
    coo = hurray.CooLayout(1, True)
    yield "extension coo", hurray.Tensor(rng.bytes(3), hurray.Dtype.from_tag(0xF2), (5,), layout=coo,
        aux_buffers=[u64([4])], extension_type=hurray.ExtensionType(24))

def sections(hurray, rng):
    known = [dict(nnz=3), dict(sparsity_ratio=0.25), dict(value_min=-1.5, value_max=2.0, value_abs_max=2.0),
        dict(value_mean=0.1, value_stddev=float("inf")), dict(nm_n=2, nm_m=4), dict(has_nan=True, has_inf=False)]
    for mask in range(64):
        given = {k: v for bit, group in enumerate(known) if mask >> bit & 1 for k, v in group.items()}
        yield f"statistics {mask}", dense(hurray, rng, hurray.int8, (2, 2), statistics=hurray.Statistics(**given))
    for k in range(8):
        shape = [int(n) for n in rng.integers(0, 4, k % 4)]
        offset = [int(n) for n in rng.integers(0, 9, len(shape))]
        parent = [n + o + int(rng.integers(0, 3)) for n, o in zip(shape, offset)]
        parts = dict(shard=hurray.Shard(parent, offset), statistics=hurray.Statistics(nnz=k))
        yield f"shard {k}", dense(hurray, rng, hurray.float16, shape, **parts)

def quantized(hurray, rng):
    i8, u8, i4, u4, f32 = hurray.int8, hurray.uint8, hurray.dtype.int4, hurray.dtype.uint4, hurray.float32
    scales = lambda n: (rng.random(n).astype(np.float32) + 0.5).tobytes()
    zeros = lambda n: rng.integers(0, 2, n).astype(np.int32).tobytes()
    every = "int8 uint8 int16 uint16 int32 uint32 int4 uint4 int2 uint2".split()
    for dtype in (getattr(hurray.dtype, name) for name in every):
        scheme = hurray.PerTensorAffine(float(rng.random() + 0.5), 1)
        yield f"per_tensor {dtype}", dense(hurray, rng, dtype, (3, 5), quantization=scheme)
        scheme = hurray.PerChannelAffine.symmetric(1, 1)
        yield f"per_channel {dtype}", dense(hurray, rng, dtype, (3, 5), quantization=scheme, aux_buffers=[scales(5)])
    scheme = hurray.PerChannelAffine.asymmetric(0, 1, 2)
    aux = [scales(3), zeros(3)]
    yield "per_channel asymmetric", dense(hurray, rng, i8, (3, 5), quantization=scheme, aux_buffers=aux)
    for kind, width in ((hurray.float16, np.float16), (hurray.bfloat16, None), (f32, np.float32)):
        data = (rng.random(8) + 0.5).astype(width).tobytes() if width else bytes([0x80, 0x3F]) * 8
        scheme = hurray.PerBlockAffine.symmetric(1, 8, 1, kind)
        yield f"per_block {kind}", dense(hurray, rng, i4, (4, 16), quantization=scheme, aux_buffers=[data])
        scheme = hurray.PerBlockAffine.asymmetric(1, 8, 1, 2, kind)
        aux = [data, zeros(8)]
        yield f"per_block {kind} zeros", dense(hurray, rng, u8, (4, 16), quantization=scheme, aux_buffers=aux)
    yield "nf4", dense(hurray, rng, u4, (4, 64), quantization=hurray.NF4(1, 64, 1), aux_buffers=[scales(4)])
    e8m0 = lambda n: rng.integers(120, 134, n).astype(np.uint8).tobytes()
    for name in ("float8_e4m3", "float8_e5m2", "float4_e2m1", "float6_e2m3", "float6_e3m2", "int8", "int4"):
        parts = dict(quantization=hurray.MXFP(1, 32, 1), aux_buffers=[e8m0(2)])
        yield f"mxfp {name}", dense(hurray, rng, getattr(hurray.dtype, name), (2, 32), **parts)
    values, index, ptr = rng.bytes(4), u64([0, 2, 1, 2]), u64([0, 2, 3, 4])
    scheme = hurray.PerChannelAffine.symmetric(0, 3)
    yield "quantized csr", hurray.Tensor(values, i8, (3, 3), layout=hurray.CsrLayout(4), quantization=scheme,
        aux_buffers=[index, ptr, scales(3)])
    layout = hurray.BlockPagedLayout(2, 3, 0, 1)
    scheme = hurray.PerBlockAffine.symmetric(0, 2, 3, f32)
    table, ptr = np.array([2, 0], np.uint32).tobytes(), np.array([0, 2], np.uint32).tobytes()
    yield "quantized paged", hurray.Tensor(rng.bytes(24), i8, (4, 2, 2), layout=layout, quantization=scheme,
        aux_buffers=[table, ptr, scales(6)])

def composites(hurray, rng):
    f32 = hurray.float32
    def box(rows, columns, dtype=f32, parent=(4, 6), **parts):
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        shard = hurray.Shard(parent, (rows.start, columns.start))
        return dense(hurray, rng, dtype, shape, shard=shard, **parts)
    def pieces(dtype=f32):
        cut = int(rng.integers(0, 7))
        return [box(slice(0, 4), slice(cut, 6), dtype), box(slice(0, 4), slice(0, cut), dtype)]
    for name in ("float32", "int16", "bool", "int4", "float128", "complex64"):
        dtype = getattr(hurray.dtype, name)
        yield f"partition {name}", hurray.Composite("partition", shape=(4, 6), dtype=dtype, members=pieces(dtype))
    for op in ("replace", "add"):
        members = [box(slice(0, 4), slice(0, 6)), *pieces()]
        yield f"overlay {op}", hurray.Composite("overlay", shape=(4, 6), dtype=f32, members=members, combine_op=op)
    q = box(slice(0, 4), slice(0, 6), hurray.int8, quantization=hurray.PerTensorAffine(0.5, 1))
    yield "quantized partition", hurray.Composite("partition", shape=(4, 6), dtype=f32, members=[q])
    rows = np.array([0, 1, 2, 3, 4], np.uint64)
    sparse = hurray.Tensor(rng.bytes(16), f32, (4, 6), layout=hurray.CsrLayout(4), shard=hurray.Shard((4, 6), (0, 0)),
        aux_buffers=[u64([5, 0, 3, 1]), rows.tobytes()])
    members = [box(slice(0, 4), slice(0, 6)), sparse]
    yield "sparse overlay", hurray.Composite("overlay", shape=(4, 6), dtype=f32, members=members, combine_op="replace")
    yield "empty group", hurray.Composite("group", shape=(), dtype=f32, members=[])
    inner = hurray.Composite("group", shape=(3,), dtype=hurray.int8, members=[dense(hurray, rng, hurray.bool, (9,))])
    for depth in range(6):
        inner = hurray.Composite("group", shape=(depth,), dtype=f32, members=[inner, dense(hurray, rng, f32, (2,))])
    yield "eight deep", hurray.Composite("group", shape=(), dtype=f32, members=[*pieces(), inner])

def cases(hurray, seed):
    rng = np.random.default_rng(seed)
    for make in (every_layout, edges, sections, quantized, composites):
        yield from make(hurray, rng)

KV = {"s": "h\u00e9\u2603", "empty": "", "i": -(2**63), "j": 2**63 - 1, "f": -0.0, "g": float("inf"), "t": True,
    "n": False, "raw": bytes(range(256)), "none": b"", "ints": [1, -2], "strings": ["a", ""],
    "floats": [1.5, float("nan")], "bools": [True, False], "bytes": [b"", b"\0"], "k\u00e4y": 1}
'''

#: defines ``described(item)``: every public field of a tensor or composite, and the bytes of its buffers
FIELDS = r'''
import hashlib

def layout_fields(layout):
    names = [n for n in dir(layout) if not n.startswith("_") and not callable(getattr(layout, n))]
    keep = {n: getattr(layout, n) for n in names if n in FIELD_NAMES}
    if keep.get("inner_tiled") is not None:
        keep["inner_tiled"] = layout_fields(keep["inner_tiled"])
    return repr(sorted(keep.items()))

FIELD_NAMES = """tag name buffer_count is_dense is_virtual strides tile_shape outer_layout inner_layout outer_strides
inner_strides inner_tiled morton_bits hilbert_order hilbert_rank nnz is_sorted mode_order page_size num_pages paged_axis
num_seqs kv_role layer_index block_table_index_type composition_rule member_count combine_op extension_layout_id
extension_data raw_bytes""".split()

def described(item):
    d = item.descriptor
    names = "shape ndim size dtype device byte_offset version encoded_len statistics shard extension_type".split()
    out = {n: repr(getattr(d, n)) for n in names}
    out["quantization"] = [type(d.quantization).__name__, d.quantization.encode().hex()] if d.quantization else None
    out["layout"] = layout_fields(d.layout)
    out["handles"] = [[b.byte_size, b.alignment, b.sync_mode, b.is_empty, repr(b.device)] for b in d.buffer_handles]
    out["descriptor"] = d.encode().hex()
    if hasattr(item, "members"):
        out["roles"] = list(item.member_roles)
        out["members"] = [described(m) for m in item.members]
        return out
    on_cpu = item.device.kind == "cpu"
    parts = [np.asarray(item.buffer(k)).tobytes() for k in range(item.buffer_count) if on_cpu]
    out["buffers"] = [hashlib.sha256(p).hexdigest() for p in parts]
    return out
'''
