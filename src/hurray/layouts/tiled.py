"""Tiled: the array is cut into equal tiles, each stored in one piece; tiles may be tiled again.

Format: layouts, tiled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.kernels import tiles as tile_kernels
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Payload,
    SeparableLayout,
    Shape,
    as_index_tuple,
    empty_codes,
    gather_separable,
    n_elements,
    pack_codes,
    set_field,
)
from hurray.layouts._linear import blank, box_starts, data_spec, output, require
from hurray.layouts._region import Region, axis_array, region_shape, region_size
from hurray.layouts.strided import reach
from hurray.limits import MAX_TILED_LEVELS
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["TiledLayout"]

_I64 = 2**63
_INNER_TAGS = {"row_major": 0x01, "col_major": 0x02, "strided": 0x03, "tiled": 0x04}
_INNER_NAMES = {tag: name for name, tag in _INNER_TAGS.items()}
_OUTER_NAMES = {tag: name for tag, name in _INNER_NAMES.items() if name != "tiled"}
_NUMPY_ORDER = {"row_major": "C", "col_major": "F"}


@record
class TiledLayout(SeparableLayout):
    """Equal tiles in a grid; an element is at ``outer(tile) * prod(tile_shape) + inner(position in the tile)``.

    Parameters
    ----------
    tile_shape : sequence of int
        Extent of a tile along each dimension; tiles at the upper edges are stored whole.
    outer_layout : str
        Order of the tiles: ``"row_major"``, ``"col_major"`` or ``"strided"``.
    inner_layout : str
        Order inside a tile: the same, or ``"tiled"``.
    outer_strides : sequence of int, optional
        Steps between tiles, in tiles; exactly with ``"strided"``.
    inner_strides : sequence of int, optional
        Steps inside a tile, in elements; exactly with ``"strided"``.
    inner_tiled : TiledLayout, optional
        How a tile is tiled again; exactly with ``"tiled"``. At most eight levels.

    Format: layouts, tiled.
    """

    tile_shape: tuple[int, ...]
    outer_layout: str
    inner_layout: str
    outer_strides: tuple[int, ...] | None
    inner_strides: tuple[int, ...] | None
    inner_tiled: TiledLayout | None

    tag = 0x04
    name = "tiled"

    def __init__(
        self,
        tile_shape: Sequence[int],
        outer_layout: str = "row_major",
        inner_layout: str = "row_major",
        outer_strides: Sequence[int] | None = None,
        inner_strides: Sequence[int] | None = None,
        inner_tiled: TiledLayout | None = None,
    ) -> None:
        tile = as_index_tuple(tile_shape, "tile_shape", low=1)
        if not tile:
            raise InvalidDescriptorError("tile_shape must not be empty")
        _check_order("outer_layout", outer_layout)
        _check_order("inner_layout", inner_layout)
        if outer_layout == "tiled":
            raise InvalidDescriptorError("outer_layout orders the tiles and cannot be 'tiled' itself")
        if (inner_tiled is not None) != (inner_layout == "tiled"):
            raise InvalidDescriptorError("inner_tiled belongs to inner_layout 'tiled': give both or neither")
        set_field(self, "tile_shape", tile)
        set_field(self, "outer_layout", outer_layout)
        set_field(self, "inner_layout", inner_layout)
        set_field(self, "outer_strides", _strides_of("outer", outer_layout, outer_strides, len(tile)))
        set_field(self, "inner_strides", _strides_of("inner", inner_layout, inner_strides, len(tile)))
        set_field(self, "inner_tiled", inner_tiled)
        if inner_tiled is not None:
            self._check_inner(inner_tiled)

    def _check_inner(self, inner: object) -> None:
        if not isinstance(inner, TiledLayout):
            raise TypeError(f"inner_tiled is a TiledLayout, not {type(inner).__name__}")
        if len(inner.tile_shape) != len(self.tile_shape):
            raise InvalidDescriptorError(
                f"inner_tiled has {len(inner.tile_shape)} dimensions, but the tile has {len(self.tile_shape)}"
            )
        if len(self._levels()) > MAX_TILED_LEVELS:
            raise InvalidDescriptorError(f"tiles are nested more than {MAX_TILED_LEVELS} levels deep")

    def __repr__(self) -> str:
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return f"TiledLayout({', '.join(f'{name}={value!r}' for name, value in values if value is not None)})"

    # Wire fields

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        return cls._parse_level(r, len(shape), MAX_TILED_LEVELS)

    @classmethod
    def _parse_level(cls, r: Reader, rank: int, levels_left: int) -> Self:
        if not levels_left:
            r.fail(f"tiles are nested more than {MAX_TILED_LEVELS} levels deep", field="tile_shape")
        at = r.offset
        tile = r.u64s(rank, "tile_shape")
        if 0 in tile:
            dim = tile.index(0)
            r.fail("a tile extent must be positive, but is 0", field=f"tile_shape[{dim}]", offset=at + 8 * dim)
        outer = _parse_order(r, "outer_layout", _OUTER_NAMES)
        inner = _parse_order(r, "inner_layout", _INNER_NAMES)
        r.reserved(2)
        outer_strides = r.i64s(rank, "outer_strides") if outer == "strided" else None
        inner_strides = r.i64s(rank, "inner_strides") if inner == "strided" else None
        inner_tiled = None
        if inner == "tiled":
            with r.inside("inner_tiled"):
                inner_tiled = cls._parse_level(r, rank, levels_left - 1)
        return cls(tile, outer, inner, outer_strides, inner_strides, inner_tiled)

    def write_fields(self, w: Writer) -> None:
        for level in self._levels():
            w.u64s(level.tile_shape)
            w.u8(_INNER_TAGS[level.outer_layout])
            w.u8(_INNER_TAGS[level.inner_layout])
            w.zeros(2)
            for strides in (level.outer_strides, level.inner_strides):
                if strides is not None:
                    w.i64s(strides)

    # Rules

    def validate_against_shape(self, shape: Shape) -> None:
        SeparableLayout.validate_against_shape(self, shape)
        if len(self.tile_shape) != len(shape):
            raise InvalidDescriptorError(
                f"layout 'tiled' has tiles of {len(self.tile_shape)} dimensions, but the shape has rank {len(shape)}"
            )

    def _levels(self) -> list[TiledLayout]:
        levels = [self]
        while (inner := levels[-1].inner_tiled) is not None:
            levels.append(inner)
        return levels

    def check_writable(self) -> None:
        """Refuse inner tiles that do not divide the tile around them: the stored blocks would overlap."""
        levels = self._levels()
        for outer, inner in itertools.pairwise(levels):
            if any(t % u for t, u in zip(outer.tile_shape, inner.tile_shape, strict=True)):
                raise InvalidDescriptorError(
                    f"layout 'tiled': tiles of {inner.tile_shape} do not divide the tiles of {outer.tile_shape}"
                )

    @property
    def _is_strided(self) -> bool:
        return any("strided" in (level.outer_layout, level.inner_layout) for level in self._levels())

    def _tiles(self) -> list[tuple[int, ...]]:
        return [level.tile_shape for level in self._levels()]

    def _steps(self, shape: Sequence[int]) -> list[Sequence[int]]:
        """Return the steps in elements: between tiles of each level, then inside the innermost tile."""
        steps: list[Sequence[int]] = []
        outer = shape
        for level in self._levels():
            tile, unit = level.tile_shape, math.prod(level.tile_shape)
            if level.outer_strides is not None:
                steps.append([stride * unit for stride in level.outer_strides])
            else:
                grid = [-(-n // t) for n, t in zip(outer, tile, strict=True)]
                steps.append(tile_kernels.contiguous_steps(grid, _NUMPY_ORDER[level.outer_layout], unit))
            if level.inner_strides is not None:
                steps.append(level.inner_strides)
            elif level.inner_tiled is None:
                steps.append(tile_kernels.contiguous_steps(tile, _NUMPY_ORDER[level.inner_layout]))
            outer = tile
        return steps

    def _extent(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the lowest and the highest element offset of a shape, ``(0, -1)`` when it is empty."""
        if 0 in shape:
            return 0, -1
        tiles, steps = self._tiles(), self._steps(shape)
        low = high = 0
        for dim, n in enumerate(shape):
            lowest, highest = tile_kernels.axis_extremes(n, [t[dim] for t in tiles], [s[dim] for s in steps])
            low, high = low + lowest, high + highest
        return low, high

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        n_elements(shape)
        if self._is_strided:
            # The padding of the last tiles may be missing, so only what the shape reaches is needed.
            return (BufferSpec("data", reach(self._extent(shape), bits, byte_offset)),)
        stored = math.prod(-(-n // t) * t for n, t in zip(shape, self.tile_shape, strict=True))
        return data_spec(stored, bits, byte_offset)

    # Elements

    def axis_offsets(self, shape: tuple[int, ...], axis: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
        self.check_writable()
        tiles = [tile[axis] for tile in self._tiles()]
        return tile_kernels.axis_offsets(index, tiles, [step[axis] for step in self._steps(shape)])

    def read(self, payload: Payload, region: Region) -> Codes:
        self.check_writable()
        require(self, payload)
        shape = payload.shape
        out_shape = region_shape(region)
        if 0 in out_shape:
            return empty_codes(out_shape, payload.storage)
        starts = box_starts(region)
        out = output(self, payload, out_shape)
        if starts is not None and payload.bits >= 8:
            # Only explicit strides reach back.
            payload, shift = payload.rebased(self._extent(shape)[0] if self._is_strided else 0)
            linear = payload.linear(payload.capacity())
            return self._read_box(linear, shift, shape, starts, out)
        terms = [self.axis_offsets(shape, k, axis_array(axis)) for k, axis in enumerate(region)]
        low, high = sum(int(t.min()) for t in terms), sum(int(t.max()) for t in terms)
        if starts is None or region_size(region) < (high - low) // 4:
            return gather_separable(payload, terms)
        # Most of a packed stretch is wanted: unpack it as a whole.
        payload, shift = payload.rebased(low)
        linear = payload.linear(high - low + 1, start=low + shift)
        return self._read_box(linear, -low, shape, starts, out)

    def _read_box(self, linear: Codes, offset: int, shape: Sequence[int], starts: Sequence[int], out: Codes) -> Codes:
        return tile_kernels.read_tiles(linear, offset, starts, self._tiles(), self._steps(shape), out)

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        if "tile_shape" not in options:
            raise TypeError("layout 'tiled' needs a tile_shape to write with, such as tile_shape=[16, 16]")
        layout = cls(**options)
        layout.validate_against_shape(codes.shape)
        layout.check_writable()
        low, high = layout._extent(codes.shape)
        if low < 0:
            raise UnsupportedError(
                "negative strides need a byte offset to write with; build the Tensor from its buffer"
            )
        strided = layout._is_strided
        n_elems = high + 1
        if not strided:
            n_elems = math.prod(-(-n // t) * t for n, t in zip(codes.shape, layout.tile_shape, strict=True))
        linear = blank(n_elems, codes.dtype, cls.name)
        tile_kernels.write_tiles(codes, linear, 0, layout._tiles(), layout._steps(codes.shape))
        if strided:
            layout._check_no_overlap(linear, codes)
        return Encoded(layout, (pack_codes(linear, bits),))

    def _check_no_overlap(self, linear: Codes, codes: Codes) -> None:
        back = self._read_box(linear, 0, codes.shape, [0] * codes.ndim, np.empty(codes.shape, codes.dtype))
        if back.tobytes() != codes.tobytes():
            raise InvalidDescriptorError("the strides put different elements at one place")

    def encode_options(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _check_order(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{what} is a string, not {type(name).__name__}")
    if name not in _INNER_TAGS:
        raise ValueError(f"{what} is one of {', '.join(_INNER_TAGS)}, not {name!r}")


def _strides_of(side: str, order: str, strides: Sequence[int] | None, rank: int) -> tuple[int, ...] | None:
    """Return checked strides of one side of a level; they are there exactly when its order is 'strided'."""
    if (strides is not None) != (order == "strided"):
        raise InvalidDescriptorError(f"{side}_strides belongs to {side}_layout 'strided': give both or neither")
    if strides is None:
        return None
    checked = as_index_tuple(strides, f"{side}_strides", low=-_I64, high=_I64 - 1)
    if len(checked) != rank:
        raise InvalidDescriptorError(f"{side}_strides has {len(checked)} entries, but the tile has {rank} dimensions")
    return checked


def _parse_order(r: Reader, field: str, names: dict[int, str]) -> str:
    at = r.offset
    tag = r.u8(field)
    name = names.get(tag)
    if name is None:
        known = ", ".join(f"0x{t:02X} ({n})" for t, n in names.items())
        r.fail(f"unknown order 0x{tag:02X}; known: {known}", field=field, offset=at)
    return name
