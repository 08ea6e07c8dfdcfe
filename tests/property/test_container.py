"""Files as a whole: what goes in comes out, and any damage gives a value or one of our errors."""

from __future__ import annotations

import io
import struct
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hurray
from file_cases import build, entry, head
from hurray.errors import HurrayError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
DTYPES = st.one_of(
    st.just(np.dtype(bool)),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw an array as users hold them: any type and order, sliced, reversed, broadcast, unaligned."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    dtype = draw(DTYPES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    data = rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    array = (data & 1).astype(bool).reshape(shape) if dtype.kind == "b" else data.view(dtype).reshape(shape)
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    if array.ndim and draw(st.booleans()):
        steps = st.sampled_from([slice(None), slice(None, None, -1), slice(1, None, 2)])
        array = array[tuple(draw(steps) for _ in shape)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (2, *array.shape))
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


def assert_equal_bits(got: Any, want: Any) -> None:
    native = want.astype(want.dtype.newbyteorder("<"))
    assert got.shape == want.shape
    assert got.dtype == native.dtype
    assert got.tobytes() == native.tobytes()


@given(st.dictionaries(NAMES, arrays(), max_size=4), st.sampled_from([4096, 8192]), st.booleans(), st.booleans())
def test_arrays_round_trip(tensors: dict[str, Any], alignment: int, sort: bool, read: bool) -> None:
    target = io.BytesIO()
    hurray.save(target, tensors, alignment=alignment, sort_index=sort)
    loaded = hurray.load(target if read else target.getvalue())
    assert list(loaded) == (sorted(tensors, key=str.encode) if sort else list(tensors))
    for name, array in tensors.items():
        assert_equal_bits(loaded[name].to_numpy(), array)
    again = io.BytesIO()
    hurray.save(again, {name: loaded[name] for name in tensors}, alignment=alignment, sort_index=sort)
    assert again.getvalue() == target.getvalue()
    assert hurray.verify(target).problems == []


def small_file() -> bytes:
    """Return a file with every kind of part, small enough to be damaged at every place."""
    sparse = hurray.from_numpy(np.eye(3)).to_layout("csr")
    quantized = hurray.Tensor(
        bytes(range(4)), hurray.int8, [2, 2], aux_buffers=[np.ones(2, np.float32)],
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
    )  # fmt: skip
    kv = struct.pack("<I", 2) + b"\1\0k\1\1\0\0\0v" + b"\1\0l\7\2\2\0\0\0" + bytes(16)
    return build(
        [entry("a", np.arange(4.0)), head("h", "group", (), 2), entry("h.0", sparse), entry("h.1", quantized)],
        kv=kv, header={"flags": 5},
    )  # fmt: skip


SMALL = small_file()
#: bytes that mean something: all but the padding in front of buffers
MEANT = [k for k in range(len(SMALL)) if any(SMALL[max(0, k - 40) : k + 40])]


def use_everything(data: bytes) -> None:
    """Do with a file what a user does; only the library's own errors may come out."""
    try:
        loaded = hurray.load(data)
    except HurrayError as error:
        assert len(str(error)) > 8
    else:
        for item in loaded.values():
            use(item)
        hurray.load_kv(data)
    report = hurray.verify(data)
    assert isinstance(str(report), str)
    try:
        with hurray.open(data) as file:
            for name in file.all_names:
                try:
                    use(file[name])
                except HurrayError:
                    continue
            file.info()
    except HurrayError:
        pass
    try:
        hurray.load(data, permissive=True)
    except HurrayError:
        pass


def use(item: Any) -> None:
    if isinstance(item, hurray.Composite):
        for member in item.members:
            use(member)
        return
    try:
        if item.quantization is not None:
            item.dequantize()
        else:
            item.to_numpy(dtype=np.float64)
    except HurrayError:
        pass


def test_the_file_itself_is_good() -> None:
    assert hurray.verify(SMALL).problems == []
    assert list(hurray.load(SMALL)) == ["a", "h"]


def test_cut_at_every_byte() -> None:
    for length in {*range(200), *range(len(SMALL) - 700, len(SMALL)), *range(0, len(SMALL), 97)}:
        with pytest.raises(HurrayError) as caught:
            hurray.load(SMALL[:length])
        assert len(str(caught.value)) > 8
        assert not hurray.verify(SMALL[:length]).ok


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(MEANT), st.integers(0, 7)), min_size=1, max_size=3))
def test_flipped_bits(flips: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for at, bit in flips:
        data[at] ^= 1 << bit
    use_everything(bytes(data))


def test_every_flipped_bit_of_the_frame_is_noticed_or_harmless() -> None:
    tail = len(SMALL) - 40
    index_offset, index_length = struct.unpack_from("<QQ", SMALL, tail)
    hint = range(28, 36)
    for at in [*range(64), *range(index_offset, index_offset + index_length), *range(tail, len(SMALL))]:
        for bit in range(8):
            data = bytearray(SMALL)
            data[at] ^= 1 << bit
            try:
                loaded = hurray.load(bytes(data))
            except HurrayError:
                continue
            # A later minor version, another legal alignment, the hint and the flag of the metadata change nothing.
            assert at in (9, 12, *range(16, 28)) or at in hint, (at, bit)
            assert list(loaded) == ["a", "h"]


@settings(max_examples=60)
@given(st.data())
def test_flipped_bits_behind_a_valid_checksum(data: st.DataObject) -> None:
    """The checksum keeps most damage of the index away; here it is made right again, so that the rules must hold."""
    raw = bytearray(SMALL)
    tail = len(raw) - 40
    index_offset, index_length = struct.unpack_from("<QQ", raw, tail)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(index_offset, index_offset + index_length - 1))
        raw[at] = data.draw(st.integers(0, 255))
    struct.pack_into("<I", raw, tail + 28, google_crc32c.value(bytes(raw[index_offset : index_offset + index_length])))
    use_everything(bytes(raw))


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, framed: bool) -> None:
    use_everything(SMALL[:64] + data + SMALL[-40:] if framed else data)
