"""Element types against those of NumPy, ml_dtypes and torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hurray.dtypes import match
from hurray.dtypes.table import ALL_DTYPES, BY_NAME, Dtype
from hurray.errors import UnsupportedError

ml_dtypes = pytest.importorskip("ml_dtypes")

ML = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
    "float6_e2m3": ml_dtypes.float6_e2m3fn,
    "float6_e3m2": ml_dtypes.float6_e3m2fn,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "int2": ml_dtypes.int2,
    "uint2": ml_dtypes.uint2,
}
NATIVE = [d for d in ALL_DTYPES if d.name not in ML and d.name != "float128"]


def name_of(dtype: Dtype) -> str:
    return dtype.name


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=name_of)
def test_to_and_from_numpy(dtype: Dtype) -> None:
    found = match.to_numpy_dtype(dtype)
    assert found == dtype.numpy
    if dtype.name == "float128":
        assert found is None
        return
    expected = np.dtype(ML.get(dtype.name, "?" if dtype.name == "bool" else dtype.name))
    assert found == expected
    assert found.itemsize == dtype.storage.itemsize
    assert match.from_numpy_dtype(found) is dtype
    assert match.from_numpy_dtype(found.newbyteorder()) is dtype
    assert match.from_numpy_dtype(found.type) is dtype
    assert Dtype.from_numpy(found) is dtype


def test_what_numpy_takes_for_a_dtype() -> None:
    assert match.from_numpy_dtype(float) is BY_NAME["float64"]
    assert match.from_numpy_dtype("<i2") is BY_NAME["int16"]
    assert match.from_numpy_dtype("bfloat16") is BY_NAME["bfloat16"]
    assert match.from_numpy_dtype("float8_e4m3fn") is BY_NAME["float8_e4m3"]
    for code in "bBhHiIlLqQefdFD?":
        assert match.from_numpy_dtype(code).storage.itemsize == np.dtype(code).itemsize


@pytest.mark.parametrize(
    "dtype",
    ["O", "S3", "U3", "V4", "V16", "M8[s]", "m8[s]", "g", "G", [("a", "f4")], ("f4", (2,)), ml_dtypes.float8_e4m3,
     ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e3m4, ml_dtypes.int1],
    ids=str,
)  # fmt: skip
def test_foreign_types_are_refused_by_name(dtype: object) -> None:
    given = np.dtype(dtype)  # type: ignore[call-overload]
    with pytest.raises(UnsupportedError) as caught:
        match.from_numpy_dtype(dtype)
    assert str(given) in str(caught.value)


def test_no_dtype_at_all() -> None:
    for nonsense in (None, "no such type", object()):
        with pytest.raises(TypeError):
            match.from_numpy_dtype(nonsense)


def test_private_types_have_no_match() -> None:
    private = Dtype.from_tag(0xF3)
    assert match.to_numpy_dtype(private) is None
    assert match.to_torch_name(private) is None
    with pytest.raises(UnsupportedError, match="0xf3"):
        match.codes_to_numpy(np.zeros(3, np.uint8), private)


def test_float128_advises_float64() -> None:
    codes = np.zeros(3, "V16")
    with pytest.raises(UnsupportedError, match="float64"):
        match.codes_to_numpy(codes, BY_NAME["float128"])
    assert np.shares_memory(match.numpy_to_codes(codes, BY_NAME["float128"]), codes)


def patterns(dtype: Dtype) -> np.ndarray:
    """Random codes of an element type."""
    rng = np.random.default_rng(dtype.tag)
    if dtype.is_sub_byte:
        return rng.integers(0, 1 << dtype.bit_width, (3, 4, 5)).astype(np.uint8)
    return np.frombuffer(rng.bytes(60 * dtype.storage.itemsize), dtype.storage).reshape(3, 4, 5)


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.name != "float128"], ids=name_of)
def test_arrays_cross_bit_for_bit(dtype: Dtype) -> None:
    codes = patterns(dtype)
    raw = codes.tobytes()
    array = match.codes_to_numpy(codes, dtype)
    assert array.dtype == match.to_numpy_dtype(dtype)
    assert array.shape == codes.shape
    assert np.shares_memory(array, codes)
    transposed = match.codes_to_numpy(codes.transpose(2, 0, 1), dtype)
    for given in (
        array,
        array.copy(order="F"),
        transposed.transpose(1, 2, 0),
        array[::-1, :, ::-1].copy()[::-1, :, ::-1],
        array.astype(array.dtype.newbyteorder()),
        codes,
    ):
        back = match.numpy_to_codes(given, dtype)
        assert back.dtype == dtype.storage
        assert back.shape == codes.shape
        assert back.flags.c_contiguous
        assert back.tobytes() == raw
    assert np.shares_memory(match.numpy_to_codes(array, dtype), codes)
    assert match.numpy_to_codes(array[0, 0, 0:1].reshape(()), dtype).shape == ()
    assert match.numpy_to_codes(array[:0], dtype).shape == (0, 4, 5)
    assert match.codes_to_numpy(codes[0, 0, 0:1].reshape(()), dtype).shape == ()


@pytest.mark.parametrize(("name", "numbers"), [("int4", range(-8, 8)), ("int2", range(-2, 2)), ("uint4", range(16))])
def test_small_integers(name: str, numbers: range) -> None:
    dtype = BY_NAME[name]
    array = np.array(list(numbers), ML[name])
    codes = match.numpy_to_codes(array, dtype)
    assert codes.tolist() == [n % (1 << dtype.bit_width) for n in numbers]
    assert match.codes_to_numpy(codes, dtype).astype(int).tolist() == list(numbers)
    dirty = (codes | np.uint8(0xF0)).view(ML[name])
    assert match.numpy_to_codes(dirty, dtype).tolist() == codes.tolist()


def test_sign_extended_integers_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "_is_sign_extended", lambda target: True)
    array = match.codes_to_numpy(np.array([7, 8, 15], np.uint8), BY_NAME["int4"])
    assert array.view(np.uint8).tolist() == [0x07, 0xF8, 0xFF]
    assert match.numpy_to_codes(array, BY_NAME["int4"]).tolist() == [7, 8, 15]


def test_bool() -> None:
    dtype = BY_NAME["bool"]
    assert match.numpy_to_codes(np.array([True, False]), dtype).tolist() == [1, 0]
    assert match.codes_to_numpy(np.array([1, 0], np.uint8), dtype).tolist() == [True, False]
    # NumPy takes any byte but 0 for true when it is made to read one.
    assert match.numpy_to_codes(np.frombuffer(b"\x02\x00\x80\x01", np.bool_), dtype).tolist() == [1, 0, 1, 1]


def test_other_c_types_of_the_same_size() -> None:
    for code in "lLqQiI":
        array = np.array([1, 2, 3], code)
        dtype = match.from_numpy_dtype(array.dtype)
        assert match.numpy_to_codes(array, dtype).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "name"),
    [("f4", "float64"), ("f4", "int32"), ("f8", "complex64"), ("i1", "int4"), ("i2", "bfloat16"), ("f2", "bfloat16"),
     ("i1", "bool"), ("g", "float128"), (ml_dtypes.float8_e4m3, "float8_e4m3"), (ml_dtypes.int4, "uint4"),
     (ml_dtypes.bfloat16, "float16"), ("O", "int64"), ("S16", "float128")],
)  # fmt: skip
def test_nothing_is_converted(given: object, name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        match.numpy_to_codes(np.zeros(2, given), BY_NAME[name])  # type: ignore[call-overload]


def test_torch_names() -> None:
    assert match.to_torch_name(BY_NAME["float8_e4m3"]) == "torch.float8_e4m3fn"
    assert match.to_torch_name(BY_NAME["int4"]) is None
    for name, torch_name in match.TORCH_NAMES.items():
        assert match.from_torch_name(torch_name) is BY_NAME[name]
        assert match.from_torch_name(torch_name.removeprefix("torch.")) is BY_NAME[name]
    for foreign in ("torch.float8_e5m2fnuz", "torch.qint8", "torch.complex32", "torch.float4"):
        with pytest.raises(UnsupportedError, match=foreign):
            match.from_torch_name(foreign)


def test_missing_or_old_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "_TO_NUMPY", {})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedError, match="need the package ml_dtypes"):
        match.to_numpy_dtype(BY_NAME["bfloat16"])
    monkeypatch.setitem(sys.modules, "ml_dtypes", sys)
    with pytest.raises(UnsupportedError, match="newer release of ml_dtypes, one with int2"):
        match.to_numpy_dtype(BY_NAME["int2"])


def test_native_types_leave_ml_dtypes_alone() -> None:
    program = (
        "import sys, numpy as np\n"
        "from hurray.dtypes import match\n"
        "for dtype in match.BY_NAME.values():\n"
        "    if dtype.name not in match._ML_NAMES and dtype.name != 'float128':\n"
        "        found = match.to_numpy_dtype(dtype)\n"
        "        assert match.from_numpy_dtype(found) is dtype\n"
        "        codes = match.numpy_to_codes(np.zeros(3, found), dtype)\n"
        "        assert match.codes_to_numpy(codes, dtype).dtype == found\n"
        "assert match.from_numpy_dtype('bfloat16') is match.BY_NAME['bfloat16']\n"
        "assert 'ml_dtypes' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
