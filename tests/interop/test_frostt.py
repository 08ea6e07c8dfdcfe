"""FROSTT files in and out; the oracle is a reader that goes line by line."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
import hurray
from hurray import FileError, InvalidDescriptorError, UnsupportedError, from_frostt, to_frostt
from hurray.interop import _entry_lines

GOOD = b"# made by hand\n\n1 1 1 2.0\n2 3 1 5.5\n  2 1 4 -1e3  \n"


def naive(text: bytes) -> dict[tuple[int, ...], float]:
    found = {}
    for line in text.decode().split("\n"):
        *index, value = line.split("#")[0].split() or [""]
        if value:
            found[tuple(int(k) - 1 for k in index)] = float(value)
    return found


def stored(t: hurray.Tensor) -> dict[tuple[int, ...], float]:
    coords, values = t.nonzeros()
    return {tuple(c): v for c, v in zip(coords.tolist(), values.tolist(), strict=True)}


def test_a_file_with_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.tns"
    path.write_bytes(GOOD)
    for source in (path, str(path), GOOD, io.BytesIO(GOOD), path.open("rb")):
        t = from_frostt(source)
        assert (t.shape, t.dtype) == ((2, 3, 4), hurray.float64)
        assert t.layout == hurray.CooLayout(3, is_sorted=True)
        assert stored(t) == naive(GOOD)
        if hasattr(source, "close"):
            source.close()
    assert from_frostt(path, shape=[5, 5, 5]).shape == (5, 5, 5)


def test_gzip_by_name_and_by_content(tmp_path: Path) -> None:
    path = tmp_path / "x.tns.gz"
    t = from_frostt(GOOD)
    to_frostt(path, t)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert stored(from_frostt(path)) == naive(GOOD)
    assert stored(from_frostt(gzip.compress(GOOD))) == naive(GOOD)
    data = path.read_bytes()
    to_frostt(path, t)
    assert path.read_bytes() == data
    for broken in (data[:-9], data[:12], data[:20] + b"\xff" + data[21:]):
        with pytest.raises(FileError, match="gzip"):
            from_frostt(broken)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n", " \t\n"])
def test_line_endings_and_a_last_line_without_one(ending: str) -> None:
    text = f"1 2 3.5{ending}2\t1 \t 4"
    assert stored(from_frostt(text.encode())) == {(0, 1): 3.5, (1, 0): 4.0}


def test_layouts() -> None:
    want = from_frostt(GOOD).to_numpy()
    t = from_frostt(GOOD, layout="csf", mode_order=[2, 0, 1])
    assert t.layout == hurray.CsfLayout(3, [2, 0, 1])
    t.validate()
    helpers.assert_same_bits(t.to_numpy(), want)
    for layout in ("csr", "csc"):
        m = from_frostt(b"2 1 5\n1 3 4\n", layout=layout)
        assert m.layout.name == layout
        assert m.to_numpy().tolist() == [[0, 0, 4], [5, 0, 0]]
    with pytest.raises(UnsupportedError, match="row_major"):
        from_frostt(GOOD, layout="row_major")
    with pytest.raises(InvalidDescriptorError, match="csf"):
        from_frostt(b"1 1 2.0", layout="csf")
    with pytest.raises(InvalidDescriptorError, match="permutation"):
        from_frostt(GOOD, layout="csf", mode_order=[0, 0, 1])


@pytest.mark.parametrize(
    ("text", "options", "line", "words"),
    [
        ("1 1 1 1.0\n0 1 1 2.0\n", {}, 2, "0 as index 1"),
        ("1 1 1.0\n1 1 1 1.0\n", {}, 2, "4 columns"),
        ("1 1 1.0\n\n# c\n1 1.0\n", {}, 4, "2 columns"),
        ("1 1 9 1.0\n", {"shape": (2, 2, 2)}, 1, r"9 as index 3, outside shape \(2, 2, 2\)"),
        ("1 1 1.0\n", {"shape": (2, 2, 2)}, 1, "3 columns, expected 4"),
        ("1 1 x 1.0\n", {}, 1, "'x' as index 3"),
        ("1 -1 1.0\n", {}, 1, "'-1' as index 2"),
        ("1 1.0 1.0\n", {}, 1, "'1.0' as index 2"),
        ("1 1_0 1.0\n", {}, 1, "'1_0' as index 2"),
        ("1 99999999999999999999 1.0\n", {}, 1, "does not fit 64 bits"),
        ("1 18446744073709551615 1.0\n", {}, 1, "does not fit 64 bits"),
        (f"1 {'9' * 5000} 1.0\n", {}, 1, "does not fit 64 bits"),
        ("1 1 2\n1 2 1.0.0\n", {}, 2, "'1.0.0' as value"),
        ("1 1 1_0\n", {}, 1, "'1_0' as value"),
        ("1 1 0x10\n", {}, 1, "'0x10' as value"),
        ("1 1 e\n", {}, 1, "'e' as value"),
        ("1 1 \0\n", {}, 1, "as value"),
        ("1,1,1.0\n", {}, 1, "one column"),
        ("1.0\n", {}, 1, "one column"),
        ("1 1 1.0 # fine\n1 1 2 3 # not\n", {}, 2, "4 columns"),
        ("1 1 1.5\n", {"dtype": hurray.int32}, 1, "'1.5' as value, expected an integer"),
        ("1 1 1\n1 2 128\n", {"dtype": hurray.int8}, 2, "outside -128 to 127"),
        ("1 1 -1\n", {"dtype": hurray.uint8}, 1, "outside 0 to 255"),
        ("1 1 8\n", {"dtype": hurray.dtype.int4}, 1, "outside -8 to 7"),
        ("# a\n1 1 5\n\n2 1 6\n# b\n1 1 7\n", {}, 6, r"repeats coordinate \(0, 0\)"),
        ("1 1 5\n" + " ".join(["1"] * 70) + "\n", {}, 2, "70 columns"),
        (" ".join(["1"] * 70) + "\n", {}, 1, "70 columns"),
    ],
)
def test_errors_name_the_line(text: str, options: dict[str, Any], line: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tns"
    path.write_bytes(text.encode())
    with pytest.raises(FileError, match=rf"bad\.tns: line {line} .*{words}"):
        from_frostt(path, **options)


def test_other_errors(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        from_frostt(tmp_path / "missing.tns")
    assert isinstance(caught.value, FileNotFoundError)
    for empty in (b"", b"\n\n", b"# only this"):
        with pytest.raises(FileError, match="pass shape="):
            from_frostt(empty)
        assert from_frostt(empty, shape=(3, 4)).nnz == 0
    with pytest.raises(FileError, match="line 2 is longer than"):
        from_frostt(b"1 1 2\n" + b"1" * 10**6)
    with pytest.raises(TypeError, match=r"hurray\.Dtype"):
        from_frostt(GOOD, dtype="float32")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="complex64"):
        from_frostt(GOOD, dtype=hurray.dtype.complex64)
    with pytest.raises(ValueError, match="duplicates is"):
        from_frostt(GOOD, duplicates="first")  # type: ignore[arg-type]
    with pytest.raises(InvalidDescriptorError, match="rank"):
        from_frostt(b"", shape=())
    with pytest.raises(TypeError, match="text mode"):
        from_frostt(io.StringIO("1 1 1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("how", "want"), [("sum", 12.0), ("last", 7.0)])
def test_repeated_entries(how: Any, want: float) -> None:
    t = from_frostt(b"2 1 6\n1 1 5\n1 1 7\n", duplicates=how)
    assert stored(t) == {(0, 0): want, (1, 0): 6.0}


def test_sums_are_made_before_rounding() -> None:
    text = b"1 16777216\n" + b"1 1\n" * 2
    assert from_frostt(text, dtype=hurray.float32, duplicates="sum").to_numpy().tolist() == [16777218.0]
    with pytest.raises(InvalidDescriptorError, match="sum of repeated entries does not fit int8"):
        from_frostt(b"1 100\n1 100\n", dtype=hurray.int8, duplicates="sum")


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "uint64", "int4", "uint2", "float32", "bfloat16", "bool"])
def test_element_types(name: str) -> None:
    dtype = hurray.Dtype.from_name(name)
    t = from_frostt(b"1 1\n2 0\n3 +1\n4 01\n", dtype=dtype)
    assert t.dtype is dtype
    assert t.to_numpy().astype(int).tolist() == [1, 0, 1, 1]


def test_large_numbers_are_exact() -> None:
    text = b"1 9007199254740993\n2 -9223372036854775808\n3 9223372036854775807\n"
    assert from_frostt(text, dtype=hurray.int64).to_numpy().tolist() == [2**53 + 1, -(2**63), 2**63 - 1]
    assert from_frostt(b"1 18446744073709551615\n", dtype=hurray.uint64).to_numpy().tolist() == [2**64 - 1]
    t = from_frostt(b"18446744073709551614 0000000000000000000000012 1\n")
    assert t.shape == (2**64 - 2, 12)
    assert t.indices.to_numpy().tolist() == [[2**64 - 3, 11]]


def test_numbers_are_rounded_as_python_rounds_them() -> None:
    spelled = ["1e23", "0.1", ".5", "5.", "+2", "1E-400", "1e400", "-inf", "nan", "Infinity", "2.2250738585072014e-308",
               "0." + "1" * 60, "123456789012345678901234567890", "-0.0", "-0"]  # fmt: skip
    text = "\n".join(f"{k} {v}" for k, v in enumerate(spelled, 1))
    helpers.assert_same_bits(from_frostt(text.encode()).to_numpy(), np.array([float(v) for v in spelled]))


def test_blocks_of_any_size_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = [f"{a} {b} {v}" for (a, b), v in zip(rng.integers(1, 99, (300, 2)).tolist(), rng.random(300), strict=True)]
    rows[100] = "# nothing"
    rows[200] = ""
    text = "\n".join(rows).encode()
    want = stored(from_frostt(text, duplicates="last"))
    assert want == naive(text)
    for block in (1, 7, 64, 1000):
        monkeypatch.setattr(_entry_lines, "_BLOCK", block)
        assert stored(from_frostt(text, duplicates="last")) == want
        with pytest.raises(FileError, match="line 303 has 'x' as index 1"):
            from_frostt(text + b"\n\n\nx 1 1\n" if rows[-1] else text, duplicates="last")


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "int64", "uint64", "int4", "bool"])
@pytest.mark.parametrize("layout", ["coo", "csf", "row_major", "tiled"])
def test_what_is_written_reads_back(name: str, layout: str, tmp_path: Path) -> None:
    dtype = hurray.Dtype.from_name(name)
    rng = np.random.default_rng(4)
    values = rng.integers(0, 2, (3, 4, 2)) * (rng.random((3, 4, 2)) * 7 + 1)
    values[-1, -1, -1] = 3
    t = hurray.asarray(values, dtype=dtype).to_layout(
        layout, **({"tile_shape": [2, 2, 2]} if layout == "tiled" else {})
    )
    path = tmp_path / "x.tns"
    to_frostt(path, t, comment="two\nlines")
    assert path.read_bytes().startswith(b"# two\n# lines\n1 ")
    back = from_frostt(path, dtype=dtype, shape=t.shape)  # type: ignore[arg-type]
    assert back.dtype is dtype
    helpers.assert_same_bits(back.to_numpy(), t.to_numpy())


def test_explicit_zeros_and_odd_numbers_are_written() -> None:
    t = hurray.sparse_coo(np.array([0.0, -0.0, np.inf, np.nan]), np.arange(4)[:, None], [6])
    out = io.BytesIO()
    to_frostt(out, t)
    assert out.getvalue() == b"1 0.0\n2 -0.0\n3 inf\n4 nan\n"
    helpers.assert_same_bits(from_frostt(out.getvalue(), shape=(6,)).to_numpy(), t.to_numpy())


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.tns"
    for t, words in (
        (hurray.asarray(3.0), "rank 0"),
        (hurray.from_numpy(np.ones(2, "c8")), "complex64"),
        (hurray.zeros([2], dtype=hurray.dtype.float128), "float128"),
        (hurray.quantize(np.ones((4, 4), "f4"), "int8"), "dequantize"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            to_frostt(path, t)
    with pytest.raises(TypeError, match="Tensor"):
        to_frostt(path, np.ones(2))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError):
        to_frostt(tmp_path / "no" / "x.tns", hurray.zeros([2]))


def test_conversion_to_and_from_files_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "count.tns").write_bytes(GOOD)
    hurray.convert(tmp_path / "count.tns", tmp_path / "x.hrry")
    t = hurray.load(tmp_path / "x.hrry")["count"]
    assert isinstance(t, hurray.Tensor)
    assert stored(t) == naive(GOOD)
    hurray.convert(tmp_path / "x.hrry", tmp_path / "y.tns.gz")
    assert stored(from_frostt(tmp_path / "y.tns.gz")) == naive(GOOD)
    hurray.save(tmp_path / "two.hrry", {"a": t, "b": t})
    with pytest.raises(UnsupportedError, match="one tensor, not 2"):
        hurray.convert(tmp_path / "two.hrry", tmp_path / "z.tns")


@given(st.data())
def test_any_entries(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    index = st.one_of(st.integers(1, 4), st.integers(1, 2**64 - 2))
    entries = data.draw(
        st.dictionaries(st.tuples(*[index] * rank), st.floats(allow_nan=False), min_size=1, max_size=20)
    )
    gap = data.draw(st.sampled_from([" ", "\t", "  "]))
    noise = data.draw(st.sampled_from(["", "# x\n", "\n", " \r\n"]))
    text = "".join(gap.join(map(str, k)) + f"{gap}{v!r}\n{noise}" for k, v in entries.items())
    t = from_frostt(text.encode())
    t.validate()
    assert t.shape == tuple(max(k[axis] for k in entries) for axis in range(rank))
    got = dict(
        zip(map(tuple, (t.indices.to_numpy() + np.uint64(1)).tolist()), t.values.to_numpy().tolist(), strict=True)
    )
    assert got == entries
    assert {k: np.signbit(v) for k, v in got.items()} == {k: np.signbit(v) for k, v in entries.items()}


@given(st.binary(max_size=60) | st.text("0123456789 \n.#-e", max_size=60).map(str.encode))
def test_any_bytes_give_a_tensor_or_one_of_our_errors(text: bytes) -> None:
    for options in ({}, {"dtype": hurray.int16}, {"shape": (9, 9)}):
        try:
            from_frostt(text, duplicates="sum", **options).validate()
        except hurray.HurrayError:
            pass
