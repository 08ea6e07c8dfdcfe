"""npy and npz in and out, against NumPy's own."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hurray
from helpers import assert_same_bits

BASE = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
ARRAYS: dict[str, NDArray[Any]] = {
    "float64": BASE,
    "float16": BASE.astype(np.float16),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "complex": BASE[0] + 1j,
    "flags": BASE % 3 == 0,
    "scalar": np.array(-7, np.int32),
    "empty": np.zeros((0, 3), np.int8),
    "fortran": np.asfortranarray(BASE),
    "fortran_flags": np.asfortranarray(BASE[0] % 2 == 0),
    "big_endian": BASE.astype(">f4"),
    "big_endian_fortran": np.asfortranarray(BASE.astype(">i8")),
    "nan": np.array([0x7FF8000000000001, 0xFFF0000000000000], np.uint64).view(np.float64),
}


def native(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")).reshape(array.shape)


def npy(array: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize("name", ARRAYS)
def test_npy_in(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, ARRAYS[name])
    assert_same_bits(hurray.from_npy(path).to_numpy(), native(ARRAYS[name]))


@pytest.mark.parametrize("name", ARRAYS)
def test_npy_out(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    hurray.to_npy(path, hurray.from_numpy(ARRAYS[name]))
    assert_same_bits(np.load(path), native(ARRAYS[name]))


def test_plain_npy_is_shared_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(BASE))
    t = hurray.from_npy(path)
    assert t.layout.name == "col_major"
    view = t.to_numpy(copy=False)
    assert not view.flags.writeable
    assert_same_bits(view, BASE)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(version: tuple[int, int]) -> None:
    out = io.BytesIO()
    np.lib.format.write_array(out, BASE, version=version)
    assert_same_bits(hurray.from_npy(out.getvalue()).to_numpy(), BASE)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_in(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, **ARRAYS)  # type: ignore[arg-type]
    with hurray.from_npz(path) as found:
        assert found.names == list(ARRAYS)
        assert len(found) == len(ARRAYS)
        assert "nan" in found
        with pytest.raises(KeyError, match="absent"):
            found["absent"]
        taken = {name: found[name] for name in found}
    for name, array in ARRAYS.items():
        assert_same_bits(taken[name].to_numpy(), native(array))


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_out(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    hurray.to_npz(path, {name: hurray.from_numpy(array) for name, array in ARRAYS.items()}, compressed=compressed)
    with np.load(path) as found:
        assert found.files == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert_same_bits(found[name], native(array))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_npz_twice_gives_the_same_bytes() -> None:
    one, two = io.BytesIO(), io.BytesIO()
    hurray.to_npz(one, {"a": BASE})
    hurray.to_npz(two, {"a": BASE})
    assert one.getvalue() == two.getvalue()


def test_refuses_what_numpy_files_cannot_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    t = hurray.from_numpy(np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises(hurray.UnsupportedError, match="bfloat16"):
        hurray.to_npy(path, t)
    with pytest.raises(hurray.UnsupportedError, match=r"'w'.*bfloat16"):
        hurray.to_npz(path, {"w": t})
    with pytest.raises(hurray.UnsupportedError, match="metadata"):
        hurray.to_npz(path, {}, kv={"a": 1})
    with pytest.raises(hurray.UnsupportedError, match="name"):
        hurray.to_npz(path, {"a\0b": BASE})
    assert list(tmp_path.iterdir()) == []


def test_refuses_types_the_format_has_not() -> None:
    for array in (np.array(["a"]), np.array([1], "M8[s]"), np.zeros(1, [("a", "f4")]), np.zeros(2, "V2")):
        with pytest.raises(hurray.UnsupportedError):
            hurray.from_npy(npy(array))


def test_pickles_are_never_loaded() -> None:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(hurray.UnsupportedError, match="objects"):
        hurray.from_npy(out.getvalue())


def header(text: str, data: bytes = b"") -> bytes:
    body = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + data


DAMAGED = {
    "empty": b"",
    "magic": b"\x93NUMPX" + npy(BASE)[6:],
    "version": b"\x93NUMPY\x09\x00" + npy(BASE)[8:],
    "cut header": npy(BASE)[:40],
    "cut data": npy(BASE)[:-1],
    "no dict": header("5"),
    "no literal": header("{'descr': f(), 'fortran_order': False, 'shape': ()}"),
    "bad dtype": header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", b"12345678"),
    "negative": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", b"12345678"),
    "bool size": header("{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}", b"12345678"),
    "huge": header("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", b"12345678"),
    "wider": header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,)}", b"12345678"),
    "rank": header("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1," * 65 + ")}", b"1"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_npy(case: str) -> None:
    with pytest.raises(hurray.FileError):
        hurray.from_npy(DAMAGED[case])


def test_damaged_npz(tmp_path: Path) -> None:
    for blob in (b"", b"PK", b"no zip at all" * 20):
        with pytest.raises(hurray.FileError):
            hurray.from_npz(blob)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "lie.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}", b"x" * 8)
        )
    with pytest.raises(hurray.FileError, match=r"'lie'.*only 8"):
        hurray.from_npz(out.getvalue())["lie"]


@pytest.mark.parametrize("compressed", [False, True])
def test_any_damage_gives_a_value_or_our_error(compressed: bool) -> None:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, a=np.arange(4.0), b=np.eye(2, dtype=bool))
    blob = out.getvalue()

    @given(st.integers(0, len(blob) - 1), st.integers(0, 255), st.integers(0, len(blob)))
    def damage(at: int, value: int, length: int) -> None:
        bad = bytearray(blob)
        bad[at] = value
        for data in (bytes(bad), bytes(bad[:length])):
            try:
                found = hurray.from_npz(data)
                for name in found:
                    found[name].to_numpy()
            except hurray.HurrayError:
                pass

    damage()
