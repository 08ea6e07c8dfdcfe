"""Rules of the file container, met in bytes made by hand."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

import hurray
import rawbytes as raw
from hurray.container.kv import parse_kv
from hurray.errors import HurrayError

D = raw.descriptor(type_tag=0x11, shape=(4,), buffers=[4])
A = raw.Put("a", D, (b"abcd",))
B = raw.Put("b", D, (b"efgh",))
EMPTY = raw.Put("e", raw.descriptor(type_tag=0x11, shape=(0,), buffers=[0]), (b"",))
CSR = raw.Put(
    "s",
    raw.descriptor(type_tag=0x11, layout=0x07, fields=raw.u64s(2, 0), shape=(2, 2), buffers=[2, 16, 24]),
    (b"\1\2", raw.u64s(0, 1), raw.u64s(0, 1, 2)),
)
NONE = raw.Put(
    "n",
    raw.descriptor(type_tag=0x11, layout=0x06, fields=raw.u64s(0, 0), shape=(2, 2), buffers=[0, 0]),
    (b"", b""),
)
HEAD = raw.Put("h", raw.head(3, 1, shape=(4,)))
KV = raw.kv((b"k", 0x02, raw.i64s(-3)))


def refused(match: str, data: bytes, *, at_open: bool = True) -> FileError:
    """Assert that loading refuses a file, that opening does when ``at_open``, and that ``verify`` reports it."""
    if at_open:
        with pytest.raises(hurray.FileError, match=match):
            hurray.open(data)
    else:
        hurray.open(data).close()
    with pytest.raises(HurrayError, match=match) as caught:
        hurray.load(data)
    assert not hurray.verify(data).ok
    for permissive in (False, True):
        with pytest.raises(HurrayError, match=match):
            hurray.load(data, permissive=permissive)
    return caught.value


FileError = HurrayError


def patched(data: bytes, at: int, content: bytes) -> bytes:
    at = at % len(data)
    return data[:at] + content + data[at + len(content) :]


def check(data: bytes) -> None:
    loaded = hurray.load(data)
    assert {name: t.to_numpy().tobytes() for name, t in loaded.items()} == {"a": b"abcd", "b": b"efgh"}
    assert hurray.verify(data).problems == []


PLAIN = raw.file([A, B])

# Header


def test_a_plain_file() -> None:
    check(PLAIN)
    target = io.BytesIO()
    hurray.save(target, {k: np.frombuffer(v, np.uint8) for k, v in (("a", b"abcd"), ("b", b"efgh"))})
    # Our header knows the number of tensors, which is all that differs.
    assert target.getvalue() == patched(PLAIN, 28, raw.u64s(2))


@pytest.mark.parametrize(
    ("at", "content", "match"),
    [
        (0, b"HRRYFILF", "not a Hurray file"),
        (8, b"\0", "version 0.0 is not supported"),
        (8, b"\2", "version 2.0 is not supported"),
        (10, b"\1", "reserved"),
        (11, b"\1", "reserved"),
        (12, raw.u32s(4 | 8), "reserved flag bits"),
        (12, raw.u32s(4 | 1 << 31), "reserved flag bits"),
        (12, raw.u32s(4 | 1), "announce a key-value section"),
        *((16, raw.u32s(n), "data_buffer_alignment") for n in (0, 1, 64, 2048, 4095, 4097, 12288, 4194304, 2**31)),
        *((20, raw.u64s(n), "first_descriptor_offset") for n in (0, 56, 63, 65, 68)),
        *((k, b"\1", "reserved") for k in range(36, 64)),
    ],
)
def test_header_fields(at: int, content: bytes, match: str) -> None:
    refused(match, patched(PLAIN, at, content))


@pytest.mark.parametrize("minor", [1, 255])
def test_a_larger_minor_version_is_read(minor: int) -> None:
    check(patched(PLAIN, 9, raw.u8s(minor)))


@pytest.mark.parametrize("alignment", [4096, 8192, 1 << 16, 1 << 21])
@pytest.mark.parametrize("first", [64, 72, 4096])
def test_alignments_and_first_offsets(alignment: int, first: int) -> None:
    check(raw.file([A, B], alignment=alignment, first=first))


def test_a_first_offset_behind_the_tensors() -> None:
    refused("outside the tensor region", raw.file([A])[:20] + raw.u64s(72) + raw.file([A])[28:], at_open=False)


@pytest.mark.parametrize("hint", [0, 1, 7, 2**64 - 1, 2**63])
def test_the_count_is_a_hint(hint: int) -> None:
    check(raw.file([A, B], hint=hint))


# The trailer


@pytest.mark.parametrize("n", [0, 1, 63, 64, 103])
def test_too_short_for_a_file(n: int) -> None:
    data = raw.file([])
    assert len(data) == 112
    refused("too few", (data[:64] + data[-40:])[:n])


def test_every_place_to_cut() -> None:
    data = raw.file([A], kv=KV)
    for n in range(0, len(data), 37):
        with pytest.raises(hurray.FileError):
            hurray.load(data[:n])
        assert not hurray.verify(data[:n]).ok


@pytest.mark.parametrize(
    ("at", "content", "match"),
    [
        (-4, b"HRRX", "cut short or has bytes"),
        (-8, b"\1", "reserved"),
        (-5, b"\1", "reserved"),
        (-12, raw.u32s(1), "CRC-32C"),
        (-40, raw.u64s(2**64 - 8), "run past the trailer"),
        (-40, raw.u64s(56), "inside the 64-byte header"),
        (-40, raw.u64s(68), "multiple of 8"),
        (-32, raw.u64s(2**64 - 1), "run past the trailer"),
        (-32, raw.u64s(7), "too few"),
        (-24, raw.u64s(2**64 - 8) + raw.u32s(8), "run past the trailer"),
        (-24, raw.u64s(12) + raw.u32s(8), "multiple of 8"),
        (-24, raw.u64s(8) + raw.u32s(8), "inside the 64-byte header"),
        (-24, raw.u64s(64) + raw.u32s(3), "too few"),
    ],
)
def test_trailer_fields(at: int, content: bytes, match: str) -> None:
    refused(match, patched(PLAIN, at, content))


def test_sections_that_overlap() -> None:
    index_offset, index_length = struct.unpack_from("<QQ", PLAIN, len(PLAIN) - 40)
    refused("overlap", patched(PLAIN, -24, raw.u64s(index_offset) + raw.u32s(index_length)))


def test_the_checksum() -> None:
    import google_crc32c

    assert google_crc32c.value(b"123456789") == 0xE3069283
    check(raw.file([A, B], flags=0))
    refused("must be 0 when the header's checksum flag is clear", raw.file([A, B], flags=0, crc=5))
    refused("CRC-32C", raw.file([A, B], crc=0))
    at = PLAIN.rindex(b"\1\0b")
    refused("CRC-32C", patched(PLAIN, at + 2, b"c"))


def test_the_quirk_of_the_metadata_flag() -> None:
    for flags in (4, 5):
        data = raw.file([A, B], kv=KV, flags=flags)
        check(data)
        assert hurray.load_kv(data) == {"k": -3}
    refused("announce a key-value section", raw.file([A, B], flags=5))
    target = io.BytesIO()
    hurray.save(target, {}, kv={"k": 1})
    assert target.getvalue()[12] == 5


def test_a_file_of_nothing() -> None:
    for data in (raw.file([]), raw.file([], kv=KV), raw.file([], kv=raw.kv())):
        assert hurray.load(data) == {}
        assert hurray.verify(data).problems == []


# The index


def index_bytes(*entries: bytes, count: int | None = None, appended: bytes = b"") -> bytes:
    """Return a file whose index is put together from entries."""
    base = raw.file([A])
    section = raw.u64s(len(entries) if count is None else count) + b"".join(entries) + appended
    index_offset = struct.unpack_from("<Q", base, len(base) - 40)[0]
    return (
        patched(base, 12, raw.u32s(0))[:index_offset]
        + section
        + struct.pack("<QQQII4x4s", index_offset, len(section), 0, 0, 0, b"HRRY")
    )


ENTRY = struct.pack("<QIQQI", 64, len(D), 4096, 4, 0)


def named(name: bytes) -> bytes:
    return struct.pack("<H", len(name)) + name + ENTRY


def test_the_index_holds_its_entries_and_nothing_else() -> None:
    assert list(hurray.load(index_bytes(named(b"x")))) == ["x"]
    refused("left behind", index_bytes(named(b"x"), appended=b"\0"))
    refused("do not fit|runs past", index_bytes(named(b"x"), count=2))
    refused("do not fit", index_bytes(named(b"x"), count=2**64 - 1))
    refused("left behind", index_bytes(named(b"x"), count=0))
    refused("at least 1 byte", index_bytes(named(b""), named(b"xyz")))
    refused("runs past", index_bytes(struct.pack("<H", 60000) + b"x" + ENTRY))


@pytest.mark.parametrize(
    "name", [b"\xc0\x80", b"\xed\xa0\x80", b"\xff", b"\xf4\x90\x80\x80", b"a\xe2\x82", b"\xc1\xbf", b"\xe0\x80\xaf"]
)
def test_names_are_strict_utf8(name: bytes) -> None:
    refused("not UTF-8", index_bytes(named(name)), at_open=False)
    with pytest.raises(hurray.FileError, match="not UTF-8"):
        parse_kv(raw.kv((name, 0x02, raw.i64s(1))))
    with pytest.raises(hurray.FileError, match="not UTF-8"):
        parse_kv(raw.kv((b"k", 0x01, raw.u32s(len(name)) + name)))


def test_names_are_unique_byte_for_byte() -> None:
    two = [A, B._replace(name="a")]
    refused("the name 'a' occurs twice", raw.file(two), at_open=False)
    with hurray.open(raw.file(two)) as file, pytest.raises(hurray.FileError, match="occurs twice"):
        file["a"]
    # Composed and decomposed letters are different bytes.
    assert len(hurray.load(raw.file([A._replace(name="\u00e9"), B._replace(name="e\u0301")]))) == 2


def test_names_of_any_length() -> None:
    for name in ("x", "n" * 65535, "\u20ac" * 21845, "\0", "a/b.c"):
        assert list(hurray.load(raw.file([A._replace(name=name)]))) == [name]


def test_the_order_of_a_sorted_index() -> None:
    b, a, umlaut = A._replace(name="b"), B._replace(name="a"), A._replace(name="\u00e4")
    data = raw.file([b, a, umlaut], order=[1, 0, 2], flags=6)
    assert list(hurray.load(data)) == ["a", "b", "\u00e4"]
    refused("name order", raw.file([b, a], flags=6), at_open=False)
    assert list(hurray.load(raw.file([b, a], flags=4))) == ["b", "a"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"descriptor_offset": 68}, "multiple of 8"),
        ({"descriptor_offset": 56}, "outside the tensor region"),
        ({"descriptor_offset": 2**64 - 8}, "outside the tensor region"),
        ({"descriptor_length": 19}, "at least 20"),
        ({"descriptor_length": len(D) - 1}, "descriptor_length"),
        ({"descriptor_length": len(D) + 1}, "descriptor_length"),
        ({"data_offset": 4097}, "multiple of 4096"),
        ({"data_offset": 4104}, "multiple of 4096"),
        ({"data_offset": 0}, "outside the tensor region"),
        ({"data_offset": 2**64 - 4096}, "outside the tensor region"),
        ({"data_length": 3}, "the buffers take 4 bytes"),
        ({"data_length": 2**64 - 1}, "outside the tensor region"),
        ({"flags": 1}, "reserved flag bits"),
        ({"flags": 1 << 31}, "reserved flag bits"),
    ],
)
def test_fields_of_an_entry(change: dict[str, int], match: str) -> None:
    data = raw.file([A, B], changes={0: change})
    error = refused(match, data, at_open=False)
    assert error.tensor == "a"
    assert "'a'" in str(error)
    with hurray.open(data) as file:
        with pytest.raises(HurrayError, match=match):
            file["a"]
        # A lazy reader looks at what it touches.
        assert file["b"].to_numpy().tobytes() == b"efgh"


def test_the_length_of_the_last_descriptor() -> None:
    for length in (2**24 + 8, 2**32 - 1):
        refused(
            "outside the tensor region", raw.file([A, B], changes={1: {"descriptor_length": length}}), at_open=False
        )
    small = hurray.Limits(max_descriptor_bytes=len(D) - 1)
    with pytest.raises(hurray.FileError, match="exceed the limit of 52"):
        hurray.load(PLAIN, limits=small)


# Places of data


@pytest.mark.parametrize("pad", [False, True])
def test_both_readings_of_the_padding(pad: bool) -> None:
    items = [A, CSR, HEAD, raw.Put("h.0", D, (b"ijkl",)), EMPTY, NONE, B]
    for pad_heads in (False, True):
        data = raw.file(items, kv=KV, pad_behind=pad, pad_heads=pad_heads)
        loaded = hurray.load(data)
        assert list(loaded) == ["a", "s", "h", "e", "n", "b"]
        assert loaded["s"].to_numpy().tolist() == [[1, 0], [0, 2]]
        assert loaded["h"].members[0].to_numpy().tobytes() == b"ijkl"
        assert loaded["e"].to_numpy().shape == (0,)
        assert loaded["n"].to_numpy().tolist() == [[0, 0], [0, 0]]
        assert loaded["b"].to_numpy().tobytes() == b"efgh"
        assert hurray.verify(data).problems == []


def test_data_lengths() -> None:
    extent = 2 * 4096 + 24
    for length, legal in ((extent, True), (extent + 1, True), (12288, True), (12289, False), (extent - 1, False)):
        data = raw.file([CSR, A], pad_behind=True, changes={0: {"data_length": length}})
        if legal:
            assert hurray.load(data)["s"].to_numpy().tolist() == [[1, 0], [0, 2]]
        else:
            refused("the buffers take", data, at_open=False)


def test_heads_have_no_data() -> None:
    member = raw.Put("h.0", D, (b"ijkl",))
    for offset in (0, 5, 4096, 2**64 - 1):
        # Its data offset means nothing.
        data = raw.file([HEAD, member], changes={0: {"data_offset": offset}})
        assert hurray.load(data)["h"].member_count == 1
    refused("a composite head has no data", raw.file([HEAD, member], changes={0: {"data_length": 8}}), at_open=False)


def test_bytes_that_two_share() -> None:
    refused("overlap|both", raw.file([A, B], changes={1: {"data_offset": 4096}}), at_open=False)
    refused("overlap|both", raw.file([A, B], changes={1: {"descriptor_offset": 64}}), at_open=False)
    # A buffer over a descriptor, its own or another's.
    at = raw.up(64 + len(D), 4096) + 4
    refused("overlap|both", raw.file([A, B], first=4096, changes={1: {"data_offset": 4096}}), at_open=False)
    refused("overlap|own descriptor", raw.file([A], first=4096, changes={0: {"data_offset": 4096}}), at_open=False)
    assert at == 4100
    # Empty buffers occupy nothing.
    assert len(hurray.load(raw.file([A, EMPTY], changes={1: {"data_offset": 4096}}))) == 2
    for k in ("data_offset", "descriptor_offset"):
        size = len(raw.file([A, B]))
        refused("outside|multiple", raw.file([A, B], changes={1: {k: raw.up(size - 100, 8)}}), at_open=False)


def test_data_that_reaches_into_a_section() -> None:
    big = raw.Put("a", raw.descriptor(type_tag=0x11, shape=(4,), buffers=[4096]), (b"abcd",))
    data = raw.file([big], kv=KV, changes={0: {"data_length": 4096}})
    refused("outside the tensor region", data, at_open=False)


def test_a_buffer_too_small_for_its_tensor() -> None:
    small = raw.Put("small", raw.descriptor(type_tag=0x11, shape=(5,), buffers=[4]), (b"abcd",))
    with pytest.raises(hurray.BufferError, match=r"tensor 'small': buffer 0 \(data\) has 4 bytes") as caught:
        hurray.load(raw.file([small]))
    assert caught.value.tensor == "small"


# Metadata

VALUES: list[tuple[int, bytes, Any]] = [
    (0x01, raw.u32s(3) + "a€".encode()[:1] + "é".encode(), "aé"),
    (0x01, raw.u32s(0), ""),
    (0x02, raw.i64s(-(2**63)), -(2**63)),
    (0x03, raw.u64s(2**64 - 1), 2**64 - 1),
    (0x04, raw.f64s(-0.5), -0.5),
    (0x05, b"\0", False),
    (0x05, b"\1", True),
    (0x06, raw.u32s(2) + b"\xff\0", b"\xff\0"),
    (0x07, b"\1" + raw.u32s(2) + raw.u32s(1) + b"x" + raw.u32s(0), ["x", ""]),
    (0x07, b"\2" + raw.u32s(2) + raw.i64s(1, -1), [1, -1]),
    (0x07, b"\3" + raw.u32s(1) + raw.u64s(2**64 - 1), [2**64 - 1]),
    (0x07, b"\4" + raw.u32s(1) + raw.f64s(2.5), [2.5]),
    (0x07, b"\5" + raw.u32s(3) + b"\1\0\1", [True, False, True]),
    (0x07, b"\6" + raw.u32s(1) + raw.u32s(1) + b"\0", [b"\0"]),
    *((0x07, raw.u8s(tag) + raw.u32s(0), []) for tag in range(1, 7)),
]


@pytest.mark.parametrize(("tag", "value", "want"), VALUES)
def test_values(tag: int, value: bytes, want: Any) -> None:
    data = raw.file([A, B], kv=raw.kv((b"first", tag, value), ("ä".encode(), 0x05, b"\1")))
    kv = hurray.load_kv(data)
    assert kv == {"first": want, "ä": True}
    assert type(kv["first"]) is type(want)
    target = io.BytesIO()
    hurray.save(target, {}, kv=kv)
    again = hurray.load_kv(target)
    assert again == kv
    assert type(again["first"]) is type(want)


@pytest.mark.parametrize(
    ("section", "match"),
    [
        (raw.kv((b"", 0x05, b"\1")), "at least 1 byte"),
        (raw.kv((b"k", 0x05, b"\1"), (b"k", 0x05, b"\1")), "occurs twice"),
        (raw.kv((b"k", 0x05, b"\2")), "0 or 1"),
        (raw.kv((b"k", 0x07, b"\5" + raw.u32s(2) + b"\1\xff")), "0 or 1"),
        *((raw.kv((b"k", tag, bytes(16))), "tag") for tag in (0x00, 0x08, 0x7F, 0xF0, 0xFE, 0xFF)),
        *((raw.kv((b"k", 0x07, raw.u8s(tag) + bytes(16))), "tag") for tag in (0x00, 0x07, 0x08, 0xF0, 0xFF)),
        (raw.kv((b"k", 0x01, raw.u32s(2**32 - 1) + b"x")), "needs 4294967295 bytes"),
        (raw.kv((b"k", 0x07, b"\4" + raw.u32s(2**32 - 1) + bytes(8))), "needs"),
        (raw.kv((b"k", 0x07, b"\1" + raw.u32s(2**32 - 1) + bytes(8))), "needs"),
        (raw.kv((b"k", 0x05, b"\1"), count=2), "needs 2 bytes"),
        (raw.kv((b"k", 0x05, b"\1"), count=2**32 - 1), "needs 2 bytes"),
        (raw.kv((b"k", 0x05, b"\1"), count=0), "left behind"),
        (raw.kv((b"k", 0x05, b"\1")) + b"\0", "left behind"),
        (raw.kv((b"k", 0x02, bytes(7))), "needs 8 bytes"),
    ],
)
def test_sections_that_are_refused(section: bytes, match: str) -> None:
    data = raw.file([A, B], kv=section)
    refused(match, data, at_open=False)
    with pytest.raises(hurray.FileError, match=match):
        hurray.load_kv(data)
    # Metadata that nobody asked for hinder nobody.
    assert hurray.open(data)["a"].to_numpy().tobytes() == b"abcd"


# Writing


def test_places_that_our_writer_chooses() -> None:
    target = io.BytesIO()
    inner = hurray.asarray(np.frombuffer(b"ijkl", np.uint8))
    items: dict[str, Any] = {
        "a": np.frombuffer(b"abcd", np.uint8),
        "s": hurray.asarray(np.array([[1, 0], [0, 2]], np.uint8)).to_layout("csr"),
        "h": hurray.Composite("group", shape=(4,), dtype=hurray.float32, members=[inner]),
        "e": hurray.zeros([0], dtype=hurray.uint8),
        "b": np.frombuffer(b"efgh", np.uint8),
    }
    hurray.save(target, items, kv={"k": -3})
    by_hand = raw.file(
        [A, CSR, HEAD, raw.Put("h.0", D, (b"ijkl",)), EMPTY, B],
        kv=KV,
        flags=5,
        hint=6,
    )
    assert target.getvalue() == by_hand


def test_private_and_unknown_things_relay_through_files() -> None:
    private = raw.Put(
        "p",
        raw.descriptor(
            type_tag=0xF1,
            layout=0xF2,
            fields=raw.u64s(7) + raw.u32s(2) + b"xy",
            shape=(9,),
            buffers=[3, 5],
            extension=raw.extension(24, 1),
        ),
        (b"123", b"45678"),
    )
    unknown = [
        raw.Put(
            "layout", raw.descriptor(type_tag=0x11, layout=0x0C, fields=b"\xaa", shape=(4,), buffers=[4]), (b"abcd",)
        ),
        raw.Put("type", raw.descriptor(type_tag=0x4C, shape=(4,), buffers=[3]), (b"xyz",)),
        raw.Put(
            "scheme",
            raw.descriptor(type_tag=0x11, shape=(4,), buffers=[4, 3], quantization=b"\xf0\x01\0\0?"),
            (b"abcd", b"123"),
        ),
        raw.Put(
            "minor", raw.descriptor(type_tag=0x11, shape=(4,), buffers=[4], version=(1, 7), appended=b"+"), (b"abcd",)
        ),
    ]
    strict = [private, unknown[3]]
    for items, permissive in ((strict, False), ([private, *unknown], True)):
        data = raw.file(items, hint=len(items))
        target = io.BytesIO()
        hurray.save(target, hurray.load(data, permissive=permissive))
        assert target.getvalue() == data
    for item in unknown[:3]:
        with pytest.raises(hurray.InvalidDescriptorError) as caught:
            hurray.load(raw.file([item]))
        assert caught.value.tensor == item.name


def test_an_opaque_descriptor_in_a_file() -> None:
    opaque = raw.Put("x", raw.descriptor(layout=0x0C, shape=(4,), buffers=[4], version=(1, 1)), (b"abcd",))
    data = raw.file([opaque, B])
    loaded = hurray.load(data, permissive=True)
    assert loaded["x"].descriptor.encode() == opaque.descriptor
    assert loaded["b"].to_numpy().tobytes() == b"efgh"
    # Where its data lie is known from the index, and nobody else may have them.
    with pytest.raises(hurray.FileError, match="overlap"):
        hurray.load(raw.file([opaque, B], changes={1: {"data_offset": 4096}}), permissive=True)
    with pytest.raises(hurray.UnsupportedError, match="cannot be written") as caught:
        hurray.save(io.BytesIO(), loaded)
    assert caught.value.tensor == "x"
