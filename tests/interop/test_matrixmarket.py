"""MatrixMarket files in and out, with scipy.io as the oracle."""

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
from hurray import FileError, UnsupportedError, from_matrixmarket, to_matrixmarket

sp = pytest.importorskip("scipy.sparse")
scipy_io = pytest.importorskip("scipy.io")

REAL = "%%MatrixMarket matrix coordinate real general\n"

FILES = [
    REAL + "% words\n%\n\n3 4 3\n1 1 1.5\n3 4 -2e-3\n2 2 0\n",
    REAL + "2 2 2\n1 1 1.5\n1 1 2\n",
    REAL + "0 3 0\n",
    REAL + "2 2 1\n1 1 nan\n",
    "%%MatrixMarket MATRIX Coordinate REAL General\n2 2 1\n\n 2  1   1.5 \r\n",
    "%%MatrixMarket matrix coordinate pattern general\n3 4 2\n1 1\n3 4\n",
    "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 1\n3 1\n",
    "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 4\n3 1 5\n3 2 6\n",
    "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n3 1 5\n3 2 6\n",
    "%%MatrixMarket matrix coordinate integer general\n3 3 2\n3 1 9223372036854775807\n1 1 -9223372036854775808\n",
    "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n3 1 9223372036854775807\n",
    "%%MatrixMarket matrix coordinate unsigned-integer general\n3 3 1\n3 1 18446744073709551615\n",
    "%%MatrixMarket matrix coordinate complex general\n3 3 2\n3 1 1 2\n1 1 -0.5 1e3\n",
    "%%MatrixMarket matrix coordinate complex hermitian\n3 3 2\n3 1 1 2\n1 1 4 0\n",
    "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n",
    "%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n",
    "%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n2\n3\n",
    "%%MatrixMarket matrix array complex hermitian\n2 2\n1 0\n2 3\n4 0\n",
]


def read_by_scipy(text: bytes) -> np.ndarray[Any, Any]:
    found = scipy_io.mmread(io.BytesIO(text))
    return found if isinstance(found, np.ndarray) else found.toarray()


@pytest.mark.parametrize("text", FILES)
def test_files_read_as_scipy_reads_them(text: str, tmp_path: Path) -> None:
    want = read_by_scipy(text.encode())
    packed = tmp_path / "x.mtx.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    plain = tmp_path / "x.mtx"
    plain.write_bytes(text.encode())
    for source in (text.encode(), packed, plain, io.BytesIO(text.encode())):
        t = from_matrixmarket(source)
        assert t.layout.name == ("coo" if "coordinate" in text.lower() else "col_major")
        t.validate()
        helpers.assert_same_bits(t.to_numpy(), want)


def test_an_array_without_elements() -> None:
    for shape in ((0, 3), (3, 0), (0, 0)):
        t = from_matrixmarket(f"%%MatrixMarket matrix array integer general\n{shape[0]} {shape[1]}\n".encode())
        assert (t.shape, t.dtype) == (shape, hurray.int64)


def test_layouts_and_types() -> None:
    text = FILES[0].encode()
    want = read_by_scipy(text)
    for layout in ("coo", "csr", "csc", "row_major", "col_major"):
        t = from_matrixmarket(text, layout=layout, dtype=hurray.float32)
        assert (t.layout.name, t.dtype) == (layout, hurray.float32)
        assert np.array_equal(t.to_numpy(), want.astype("f4"))
    assert from_matrixmarket(text, dtype=hurray.bool).to_numpy().tolist() == (want != 0).tolist()
    assert from_matrixmarket(FILES[5].encode(), dtype=hurray.dtype.int4).dtype is hurray.dtype.int4
    with pytest.raises(FileError, match="does not fit int8"):
        from_matrixmarket(text, dtype=hurray.int8)
    with pytest.raises(UnsupportedError, match="complex values"):
        from_matrixmarket(FILES[12].encode(), dtype=hurray.float32)
    with pytest.raises(TypeError, match=r"hurray\.Dtype"):
        from_matrixmarket(text, dtype="float32")  # type: ignore[arg-type]


@pytest.mark.parametrize(("how", "want"), [("sum", 3.5), ("last", 2.0)])
def test_repeated_entries(how: Any, want: float) -> None:
    text = REAL.encode() + b"% c\n2 2 2\n2 1 1.5\n2 1 2\n"
    assert from_matrixmarket(text, duplicates=how).to_numpy().tolist() == [[0, 0], [want, 0]]
    with pytest.raises(FileError, match=r"line 5 repeats coordinate \(1, 0\)"):
        from_matrixmarket(text, duplicates="error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1 is not the banner"),
        ("hello", "line 1 is not the banner"),
        ("%%MatrixMarket vector coordinate real general\n3 1\n1 2.0\n", "'vector', expected matrix"),
        ("%%MatrixMarket matrix list real general\n", "'list', expected coordinate or array"),
        ("%%MatrixMarket matrix array quaternion general\n", "'quaternion'"),
        ("%%MatrixMarket matrix array pattern general\n2 2\n", "means nothing"),
        ("%%MatrixMarket matrix array real hermitian\n2 2\n", "means nothing"),
        (REAL, "line 2 is not the size"),
        (REAL + "2 2\n", "line 2 is not the size"),
        (REAL + "% c\n-2 2 1\n1 1 1.5\n", "line 3 is not the size"),
        (REAL + "99999999999999999999 2 1\n1 1 1.5\n", "line 2 is not the size"),
        (REAL + "2 2 2\n1 1 1.5\n", "1 entries, but the header promises 2"),
        (REAL + "2 2 99999999999999\n1 1 1.5\n", "promises 99999999999999"),
        (REAL + "2 2 1\n1 1 1.5\n% c\n2 2 3\n", "line 5 is one more than the 1"),
        (REAL + "2 2 1\n3 1 1.5\n", r"line 3 has 3 as index 1, outside shape \(2, 2\)"),
        (REAL + "2 2 1\n0 1 1.5\n", "line 3 has 0 as index 1"),
        (REAL + "2 2 1\n1 1\n", "line 3 has 2 columns"),
        (REAL + "2 2 1\n1 1 x\n", "line 3 has 'x' as value"),
        (REAL.replace("real", "integer") + "2 2 1\n1 1 1.5\n", "line 3 has '1.5' as value"),
        (REAL.replace("real", "integer") + "2 2 1\n1 1 9223372036854775808\n", "line 3 .* outside"),
        (REAL.replace("real", "pattern") + "2 2 1\n1 1 1\n", "line 3 has 3 columns"),
        (REAL.replace("real", "complex") + "2 2 1\n1 1 1\n", "line 3 has 3 columns"),
        (REAL.replace("general", "symmetric") + "2 3 1\n1 1 1\n", "a symmetric matrix is square"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", "3 entries, but the header promises 4"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4-1\n", "line 6 has '4-1' as value"),
        ("%%MatrixMarket matrix array real general\n200000000 20000000\n1\n", "promises 4000000000000000"),
        ("%%MatrixMarket matrix array integer skew-symmetric\n2 2\n-9223372036854775808\n", "does not fit int64"),
        (REAL.replace("real", "unsigned-integer").replace("general", "skew-symmetric") + "2 2 1\n2 1 1\n", "uint64"),
    ],
)
def test_errors_are_in_words(text: str, words: str) -> None:
    with pytest.raises(FileError, match=words):
        from_matrixmarket(text.encode())


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        from_matrixmarket(tmp_path / "missing.mtx")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(FileError, match="gzip"):
        from_matrixmarket(gzip.compress(FILES[0].encode())[:-10])


@pytest.mark.parametrize(
    "name", ["float64", "float32", "int16", "uint64", "bool", "complex64", "float16", "bfloat16", "int4"]
)
@pytest.mark.parametrize("layout", ["row_major", "col_major", "tiled", "coo", "csr", "csc"])
@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_what_is_written_reads_back(name: str, layout: str, suffix: str, tmp_path: Path) -> None:
    dtype = hurray.Dtype.from_name(name)
    rng = np.random.default_rng(5)
    values = rng.integers(0, 2, (5, 4)) * (rng.random((5, 4)) * 5 + 1)
    t = hurray.asarray(values, dtype=dtype).to_layout(layout, **({"tile_shape": [2, 2]} if layout == "tiled" else {}))
    path = tmp_path / f"x{suffix}"
    to_matrixmarket(path, t, comment="two\nlines")
    back = from_matrixmarket(path, dtype=dtype)
    dense = "row_major" if dtype.is_sub_byte else "col_major"
    assert back.layout.name == ("coo" if t.layout.is_sparse else dense)
    helpers.assert_same_bits(back.to_numpy(), t.to_numpy())
    data = path.read_bytes()
    text = gzip.decompress(data) if suffix.endswith("gz") else data
    assert text.splitlines()[1:3] == [b"%two", b"%lines"]
    assert np.array_equal(read_by_scipy(text).astype(t.to_numpy().dtype), t.to_numpy())


def test_explicit_zeros_are_written() -> None:
    t = hurray.sparse_coo(np.array([0.0, -0.0, 0.1]), np.array([[0, 0], [0, 1], [1, 1]]), [2, 2])
    out = io.BytesIO()
    to_matrixmarket(out, t)
    back = from_matrixmarket(out.getvalue())
    assert back.nnz == 3
    helpers.assert_same_bits(back.values.to_numpy(), t.values.to_numpy())


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.mtx"
    for t, words in (
        (hurray.zeros([2]), "matrix"),
        (hurray.zeros([2, 2, 2]).to_layout("csf"), "matrix"),
        (hurray.zeros([2, 2], dtype=hurray.dtype.float128), "float128"),
        (hurray.quantize(np.ones((4, 4), "f4"), "int8"), "dequantize"),
        (hurray.quantize(np.ones((4, 4), "f4"), "int8").to_layout("csr"), "dequantize"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            to_matrixmarket(path, t)
    with pytest.raises(TypeError, match="Tensor"):
        to_matrixmarket(path, np.eye(2))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_conversion_to_and_from_files_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "m.mtx").write_text(FILES[0])
    hurray.convert(tmp_path / "m.mtx", tmp_path / "x.hrry")
    t = hurray.load(tmp_path / "x.hrry")["m"]
    assert np.array_equal(t.to_numpy(), read_by_scipy(FILES[0].encode()))
    hurray.convert(tmp_path / "x.hrry", tmp_path / "y.mtx.gz")
    assert np.array_equal(from_matrixmarket(tmp_path / "y.mtx.gz").to_numpy(), t.to_numpy())


@given(st.data())
def test_any_matrix(data: st.DataObject) -> None:
    rows, cols = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    n = data.draw(st.integers(0, 12))
    place = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
    where = np.array(data.draw(st.lists(place, min_size=n, max_size=n)), np.int64).reshape(n, 2)
    values = np.array(data.draw(st.lists(st.floats(-1e9, 1e9, width=32), min_size=n, max_size=n)), np.float64)
    m = sp.coo_array((values, tuple(where.T)), shape=(rows, cols))
    out = io.BytesIO()
    scipy_io.mmwrite(out, m, symmetry="general")
    assert np.allclose(from_matrixmarket(out.getvalue()).to_numpy(), m.toarray())


@given(st.data())
def test_any_bytes_give_a_tensor_or_one_of_our_errors(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(FILES)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"9999", b"\n", b"-"])
        )
    try:
        from_matrixmarket(bytes(text)).validate()
    except hurray.HurrayError:
        pass
