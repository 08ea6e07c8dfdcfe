"""The reserved codes of float8_e8m0, 0x00 and 0xFF: refused by every path that reads values, carried by every other."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import hurray

DENSE = ["row_major", "col_major", "strided", "tiled", "morton", "hilbert"]
E8M0 = hurray.dtype.float8_e8m0


def bad_tensor(layout: str, code: int, permissive: bool) -> hurray.Tensor:
    codes = np.full((4, 4), 127, np.uint8)
    codes[1, 2] = code
    if layout in ("coo", "csr", "csc"):
        where = {
            "coo": (hurray.CooLayout(2, True), [np.array([0, 0, 1, 2], "<u8")]),
            "csr": (hurray.CsrLayout(2), [np.array([0, 2], "<u8"), np.array([0, 1, 2, 2, 2], "<u8")]),
            "csc": (hurray.CscLayout(2), [np.array([0, 1], "<u8"), np.array([0, 1, 1, 2, 2], "<u8")]),
        }[layout]
        made = hurray.Tensor(np.array([127, code], np.uint8), E8M0, [4, 4], layout=where[0], aux_buffers=where[1])
    else:
        options = {"tiled": {"tile_shape": [2, 3]}}.get(layout, {})
        made = hurray.Tensor(codes, E8M0, [4, 4]).to_layout(layout, **options)
    return hurray.Tensor._from_parts(made.descriptor, made._buffers, permissive=permissive)


READS: dict[str, Any] = {
    "to_numpy": lambda t: t.to_numpy(), "float64": lambda t: t.to_numpy(dtype=np.float64),
    "copy": lambda t: t.to_numpy(copy=True),
    "all": lambda t: t[...], "one": lambda t: t[1, 2], "row": lambda t: t[1], "array": lambda t: t[[0, 1], [0, 2]],
    "lookup": lambda t: t.lookup([[1, 2]]), "nonzeros": lambda t: t.nonzeros(), "statistics": hurray.compute_statistics,
    "asarray": lambda t: hurray.asarray(t, dtype=hurray.float32), "quantize": lambda t: hurray.quantize(t, "int8"),
    "iterate": lambda t: list(t), "validate": lambda t: t.validate(), "transposed": lambda t: t.transpose().to_numpy(),
}  # fmt: skip
CARRIES: dict[str, Any] = {
    "repr": repr, "deepcopy": copy.deepcopy, "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "native": hurray.from_hurray, "buffer": lambda t: t.buffer(0).to_numpy(),
    "save": lambda t: hurray.save(io.BytesIO(), {"t": t}), "stream": lambda t: hurray.StreamWriter().write(t),
}  # fmt: skip


@pytest.mark.parametrize("layout", [*DENSE, "coo", "csr", "csc"])
@pytest.mark.parametrize("code", [0x00, 0xFF])
@pytest.mark.parametrize("permissive", [False, True])
def test_reserved_elements(layout: str, code: int, permissive: bool) -> None:
    for name, read in READS.items():
        with pytest.raises(hurray.InvalidDescriptorError):
            pytest.fail(f"{name} gave {read(bad_tensor(layout, code, permissive))!r}")
    again = bad_tensor(layout, code, permissive)
    for read in (again.validate, again.to_numpy, again.validate, again.to_numpy):
        with pytest.raises(hurray.InvalidDescriptorError):
            read()
    for carry in CARRIES.values():
        carry(bad_tensor(layout, code, permissive))
    if layout not in ("coo", "csr", "csc"):
        part = bad_tensor(layout, code, permissive)[2:]
        assert np.asarray(part).astype(np.float32).min() == 1


@pytest.mark.parametrize("code", [0x00, 0xFF])
@pytest.mark.parametrize("dtype", sorted(hurray.MXFP.storage_types))
@pytest.mark.parametrize("layout", ["row_major", "col_major", "strided", "tiled", "morton", "coo", "csr"])
def test_reserved_scales(layout: str, dtype: str, code: int) -> None:
    recipe = next(n for n, r in hurray.RECIPES.items() if r.scheme is hurray.MXFP and r.dtype.name == dtype)
    options = {"tiled": {"tile_shape": [2, 8]}}.get(layout, {})
    q = hurray.quantize(np.ones((3, 64), np.float32), recipe, block_size=32)
    buffers = [*q._buffers[:-1], q._buffers[-1].copy()]
    buffers[-1][3] = code  # row 1, second block
    t = hurray.Tensor._from_parts(q.descriptor, buffers).to_layout(layout, **options)
    for read in (
        t.dequantize, lambda: t.dequantize((1, 40)), lambda: t.dequantize(([1, 2], slice(32, 33))), t.validate,
        lambda: hurray.compute_statistics(t), lambda: hurray.quantization_error(np.ones((3, 64)), t),
    ):  # fmt: skip
        with pytest.raises(hurray.InvalidDescriptorError):
            read()
    assert t.dequantize((slice(None, None, 2), slice(None))).to_numpy().min() == 1
    assert t.dequantize((1, slice(0, 32))).to_numpy().min() == 1
    hurray.save(io.BytesIO(), {"t": t})
    t.scales()


def test_reserved_elements_of_composite_members() -> None:
    whole = np.full((4, 4), 127, np.uint8)
    whole[3, 3] = 0xFF
    parts = [
        hurray.Tensor(whole[:2], E8M0, [2, 4], shard=hurray.Shard((4, 4), (0, 0))),
        hurray.Tensor(whole[2:], E8M0, [2, 4], shard=hurray.Shard((4, 4), (2, 0))),
    ]
    c = hurray.Composite("partition", shape=(4, 4), dtype=E8M0, members=parts)
    assert np.asarray(c[:3]).astype(np.float32).min() == 1
    for read in (c.to_numpy, lambda: c[3, 3], lambda: c[[3], [3]], lambda: c[-1], c.validate):
        with pytest.raises(hurray.InvalidDescriptorError):
            read()
