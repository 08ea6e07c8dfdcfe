"""Names for the usual ways to quantize.

A recipe is a scheme class, a storage type and options; :meth:`Recipe.quantize` turns real numbers into codes, a scheme
and its parameter buffers.

Format: quantization, quantizing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import HurrayError, InvalidDescriptorError, UnsupportedError
from hurray.kernels.scaling import NonFiniteError, ScaleRangeError
from hurray.quantization._base import Quantized
from hurray.quantization.mxfp import MXFP
from hurray.quantization.nf4 import NF4
from hurray.quantization.per_block import PerBlockAffine
from hurray.quantization.per_channel import PerChannelAffine
from hurray.quantization.per_tensor import PerTensorAffine
from hurray.records import record

__all__ = ["RECIPES", "Recipe", "recipe"]


@record(kw_only=True)
class Recipe:
    """How to quantize: a scheme class, a storage type, and options.

    Parameters
    ----------
    scheme : type
        The scheme class.
    dtype : Dtype
        Storage type of the codes.
    options : mapping
        Keyword arguments of the scheme's ``quantize``: ``axis`` (may be negative), ``block_size``, ``symmetric``,
        ``scale_type``.
    name : str
        What messages call it.

    Format: quantization, quantizing.
    """

    scheme: type[Any]
    dtype: Dtype
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    name: str = ""

    def quantize(self, x: NDArray[Any], *, first_index: int = 1, workers: int | None = None) -> Quantized:
        """Quantize real numbers of any real dtype, shape and memory order.

        Parameters
        ----------
        first_index : int
            Index of the first parameter buffer in the tensor's buffer table.
        workers : int, optional
            Number of threads; by default one for small inputs.

        Raises
        ------
        InvalidDescriptorError
            A number is NaN, infinite or beyond float32 (its position is named); or the axis or block does not fit.
        UnsupportedError
            The numbers are complex, or no numbers.
        """
        if x.dtype.kind in "cSUOMm" or (x.dtype.kind == "V" and x.dtype.names is not None):
            raise UnsupportedError(f"{x.dtype} cannot be quantized: only real numbers can")
        if self.dtype.name not in self.scheme.storage_types:
            allowed = ", ".join(sorted(self.scheme.storage_types))
            raise InvalidDescriptorError(
                f"scheme {self.scheme.name} cannot store {self.dtype.name}; it stores {allowed}"
            )
        options = dict(self.options)
        if "axis" in options:
            options["axis"] = self._axis(options["axis"], x.ndim)
            self._check_block(options, x.shape)
        with self._naming(x.shape):
            done: Quantized = self.scheme.quantize(x, self.dtype, first_index=first_index, workers=workers, **options)
        return done

    def quantize_slots(self, x: NDArray[Any], slots: NDArray[np.int64], *, page_size: int, n_slots: int) -> Quantized:
        """Quantize block-paged tokens per page slot: see :meth:`PerBlockAffine.quantize_slots`."""
        options = {name: self.options[name] for name in ("symmetric", "scale_type") if name in self.options}
        with self._naming(x.shape):
            return PerBlockAffine.quantize_slots(
                x, self.dtype, slots, page_size=page_size, n_slots=n_slots, first_index=3, **options
            )

    @contextmanager
    def _naming(self, shape: tuple[int, ...]) -> Iterator[None]:
        """Turn the kernels' errors into ours, which name the recipe and the element."""
        what = self.name or self.scheme.name
        try:
            yield
        except NonFiniteError as error:
            # Tokens are quantized as rows, so that the last index may stand for several.
            lead = error.position[:-1]
            tail = np.unravel_index(error.position[-1], shape[len(lead) :]) if error.position else ()
            place = [*lead, *(int(k) for k in tail)]
            shown = place[0] if len(place) == 1 else place
            raise InvalidDescriptorError(
                f"{what}: element {shown} is {error.value}, which cannot be quantized"
            ) from None
        except ScaleRangeError as error:
            raise InvalidDescriptorError(f"{what}: {error}") from None
        except (MemoryError, ValueError) as error:
            # An empty array may have more rows than there is memory for their scales.
            if isinstance(error, HurrayError) or (0 not in shape and isinstance(error, ValueError)):
                raise
            raise UnsupportedError(f"{what}: not enough memory for shape {shape}") from None

    def _axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise InvalidDescriptorError(f"{self.name or self.scheme.name}: axis {axis} is outside rank {rank}")
        return axis % rank

    def _check_block(self, options: dict[str, Any], shape: tuple[int, ...]) -> None:
        block = options.get("block_size")
        n = shape[options["axis"]]
        if block is not None and n and block > n:
            raise InvalidDescriptorError(
                f"{self.name or self.scheme.name}: block_size {block} exceeds axis {options['axis']}, which has {n}"
            )


def _affine(name: str, dtype: str, scheme: type[Any], **options: Any) -> Recipe:
    return Recipe(scheme=scheme, dtype=BY_NAME[dtype], options=MappingProxyType(options), name=name)


def _rows() -> list[Recipe]:
    rows = []
    for dtype in ("int8", "int16", "int32", "int4", "int2", "uint8", "uint16", "uint32", "uint4", "uint2"):
        symmetric = dtype.startswith("int")
        rows.append(_affine(dtype, dtype, PerTensorAffine, symmetric=symmetric))
        rows.append(_affine(f"{dtype}_per_channel", dtype, PerChannelAffine, axis=0, symmetric=symmetric))
        if dtype in PerBlockAffine.storage_types:
            name = f"{dtype}_per_block"
            rows.append(_affine(name, dtype, PerBlockAffine, axis=-1, block_size=32, symmetric=symmetric))
    rows.append(_affine("nf4", "uint4", NF4, axis=-1, block_size=64))
    for name, dtype in (
        ("mxfp8_e4m3", "float8_e4m3"),
        ("mxfp8_e5m2", "float8_e5m2"),
        ("mxfp6_e2m3", "float6_e2m3"),
        ("mxfp6_e3m2", "float6_e3m2"),
        ("mxfp4", "float4_e2m1"),
        ("mxint8", "int8"),
        ("mxint4", "int4"),
    ):
        rows.append(_affine(name, dtype, MXFP, axis=-1, block_size=32))
    return rows


#: The recipes by name: per tensor, per channel (axis 0), per block (32 along the last axis), NF4 and MX.
#: Signed integers are symmetric, unsigned ones are not.
RECIPES: Mapping[str, Recipe] = MappingProxyType({row.name: row for row in _rows()})


def recipe(spec: str | Recipe, **overrides: Any) -> Recipe:
    """Return the recipe called ``spec`` (or given), with some options replaced.

    Parameters
    ----------
    **overrides
        ``axis``, ``block_size``, ``symmetric`` or ``scale_type``, where the scheme has them.

    Raises
    ------
    InvalidDescriptorError
        There is no such recipe.
    TypeError
        An option is unknown to the scheme.

    Examples
    --------
    >>> recipe("int4_per_block", block_size=64).options["block_size"]
    64
    """
    if isinstance(spec, Recipe):
        found: Recipe | None = spec
    elif isinstance(spec, str):
        found = RECIPES.get(spec)
    else:
        raise TypeError(f"a recipe is a name or a Recipe, not {type(spec).__name__}")
    if found is None:
        raise InvalidDescriptorError(f"unknown recipe {spec!r}; known: {', '.join(RECIPES)}")
    if not overrides:
        return found
    known = _OPTIONS[found.scheme.name]
    for option in overrides:
        if option not in known:
            what = found.name or found.scheme.name
            raise TypeError(f"{what} takes no option {option!r}; it takes {', '.join(known)}")
    return replace(found, options=MappingProxyType({**found.options, **overrides}))


_OPTIONS = {
    "per_tensor_affine": ("symmetric",),
    "per_channel_affine": ("axis", "symmetric"),
    "per_block_affine": ("axis", "block_size", "symmetric", "scale_type"),
    "nf4": ("axis", "block_size"),
    "mxfp": ("axis", "block_size"),
}
