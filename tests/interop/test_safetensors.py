"""safetensors in and out, against the safetensors package."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hurray
from helpers import assert_same_bits, bits

safetensors = pytest.importorskip("safetensors")
peer = pytest.importorskip("safetensors.numpy")

RNG = np.random.default_rng(5)


def raw(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


NATIVE = {
    "f8": np.float64,
    "f4": np.float32,
    "f2": np.float16,
    "i8": np.int64,
    "i4": np.int32,
    "i2": np.int16,
    "i1": np.int8,
    "u8": np.uint64,
    "u4": np.uint32,
    "u2": np.uint16,
    "u1": np.uint8,
    "c8": np.complex64,
}


def sample(dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(RNG.bytes(n_bytes), dtype).reshape(shape)


def arrays() -> dict[str, NDArray[Any]]:
    found = {name: sample(dtype, (3, 5)) for name, dtype in NATIVE.items()}
    found["flags"] = RNG.random((7, 3)) > 0.5
    found["scalar"] = np.array(2.5, np.float32)
    found["empty"] = np.zeros((0, 4), np.int16)
    found["größe"] = np.arange(3, dtype=np.uint8)
    return found


def test_reads_what_the_package_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    want = arrays()
    peer.save_file(want, path, metadata={"format": "np", "über": "\n"})
    with hurray.from_safetensors(path) as found:
        assert sorted(found) == sorted(want)
        assert len(found) == len(want)
        assert found.kv == {"format": "np", "über": "\n"}
        assert "f4" in found
        assert "absent" not in found
        with pytest.raises(KeyError, match="absent"):
            found["absent"]
        for name, array in want.items():
            assert_same_bits(found[name].to_numpy(), array)


def test_the_package_reads_what_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    want = arrays()
    hurray.to_safetensors(path, want, kv={"format": "np"})
    got = peer.load_file(path)
    assert sorted(got) == sorted(want)
    for name, array in want.items():
        assert_same_bits(got[name], array)
    with safetensors.safe_open(path, "np") as f:
        assert f.metadata() == {"format": "np"}


def test_writes_the_same_file_as_the_package(tmp_path: Path) -> None:
    want = arrays()
    ours = io.BytesIO()
    hurray.to_safetensors(ours, want, kv={"k": "v"})
    assert ours.getvalue() == peer.save(want, metadata={"k": "v"})


SMALL = {
    "BF16": (ml_dtypes.bfloat16, "bfloat16"),
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, "float8_e4m3"),
    "F8_E5M2": (ml_dtypes.float8_e5m2, "float8_e5m2"),
}


@pytest.mark.parametrize("kind", SMALL)
def test_small_floats_keep_every_bit(kind: str, tmp_path: Path) -> None:
    dtype, name = SMALL[kind]
    width = np.dtype(dtype).itemsize
    codes = np.arange(256 ** min(width, 1) if width == 1 else 65536, dtype=f"u{width}")
    data = codes.tobytes()
    blob = raw({"x": entry(kind, [codes.size], 0, len(data))}, data)
    t = hurray.from_safetensors(blob)["x"]
    assert t.dtype.name == name
    assert bits(t.to_numpy()) == data
    assert t.to_numpy().dtype == dtype
    back = tmp_path / "b.safetensors"
    hurray.to_safetensors(back, {"x": t})
    with safetensors.safe_open(back, "np") as f:
        assert f.get_slice("x").get_dtype() == kind
    assert back.read_bytes().endswith(data)


@pytest.mark.parametrize(
    ("kind", "name", "n", "n_bytes"),
    [
        ("F8_E8M0", "float8_e8m0", 3, 3),
        ("F4", "float4_e2m1", 6, 3),
        ("F6_E2M3", "float6_e2m3", 8, 6),
        ("F6_E3M2", "float6_e3m2", 4, 3),
    ],
)
def test_scale_and_packed_types_pass_unchanged(kind: str, name: str, n: int, n_bytes: int) -> None:
    data = bytes(range(1, n_bytes + 1))
    blob = raw({"x": entry(kind, [n], 0, n_bytes)}, data)
    t = hurray.from_safetensors(blob)["x"]
    assert t.dtype is hurray.Dtype.from_name(name)
    assert t.shape == (n,)
    assert bits(np.asarray(t.buffer(0))) == data
    out = io.BytesIO()
    hurray.to_safetensors(out, {"x": t})
    assert out.getvalue().endswith(data)
    again = hurray.from_safetensors(out.getvalue())["x"]
    assert again.dtype is t.dtype
    assert bits(np.asarray(again.buffer(0))) == data


def test_float4_order_is_low_bits_first() -> None:
    t = hurray.from_safetensors(raw({"x": entry("F4", [2], 0, 1)}, b"\x21"))["x"]
    assert t.to_numpy().astype(np.float32).tolist() == [0.5, 1.0]


def test_mapped_tensors_are_shared_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    peer.save_file({"w": np.arange(5000, dtype=np.float32)}, path)
    found = hurray.from_safetensors(path)
    one, two = found["w"].to_numpy(), found["w"].to_numpy()
    assert np.shares_memory(one, two)
    assert not one.flags.writeable
    found.close()
    assert one[4999] == 4999


def test_unaligned_data_are_shared() -> None:
    blob = raw(
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}',
        b"\x07" + struct.pack("<2d", 1.5, -2.5),
    )
    t = hurray.from_safetensors(blob)["b"]
    assert t.to_numpy(copy=False).tolist() == [1.5, -2.5]


def test_layouts_are_written_in_logical_order(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    tensors = {
        "fortran": hurray.from_numpy(np.asfortranarray(base)),
        "strided": hurray.from_numpy(base[::2, ::-1]),
        "tiled": hurray.from_numpy(base).to_layout(hurray.TiledLayout([2, 4])),
        "flags": hurray.from_numpy(np.asfortranarray(base % 3 == 0)),
    }
    hurray.to_safetensors(path, tensors)
    got = peer.load_file(path)
    assert_same_bits(got["fortran"], base)
    assert_same_bits(got["strided"], base[::2, ::-1])
    assert_same_bits(got["tiled"], base)
    assert_same_bits(got["flags"], base % 3 == 0)


def test_refuses_what_it_cannot_express(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"old")
    dense = np.eye(4, dtype=np.float32)
    csr = hurray.from_numpy(dense).to_layout("csr")
    with pytest.raises(hurray.UnsupportedError, match=r"'m'.*csr.*densify"):
        hurray.to_safetensors(path, {"m": csr})
    with pytest.raises(hurray.UnsupportedError, match=r"'m'.*complex128"):
        hurray.to_safetensors(path, {"m": dense.astype(np.complex128)})
    with pytest.raises(hurray.UnsupportedError, match="__metadata__"):
        hurray.to_safetensors(path, {"__metadata__": dense})
    with pytest.raises(hurray.UnsupportedError, match="'blob'"):
        hurray.to_safetensors(path, {}, kv={"blob": b"\x00"})
    odd = hurray.Tensor(b"\x21\x03", hurray.dtype.float4_e2m1, [3])
    with pytest.raises(hurray.UnsupportedError, match="whole bytes"):
        hurray.to_safetensors(path, {"m": odd})
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    hurray.to_safetensors(path, {"m": csr}, densify=True)
    assert_same_bits(peer.load_file(path)["m"], dense)


def test_quantized_tensors_need_a_word() -> None:
    t = hurray.Tensor(np.array([1, -2, 3], np.int8), hurray.int8, [3], quantization=hurray.PerTensorAffine(0.5, 1))
    with pytest.raises(hurray.UnsupportedError, match="dequantize=True"):
        hurray.to_safetensors(io.BytesIO(), {"q": t})
    out = io.BytesIO()
    hurray.to_safetensors(out, {"q": t}, dequantize=True)
    assert_same_bits(peer.load(out.getvalue())["q"], np.array([0, -1.5, 1], np.float32))


def test_metadata_other_than_text_becomes_json() -> None:
    out = io.BytesIO()
    hurray.to_safetensors(out, {}, kv={"a": 1, "b": True, "c": [1.5, 2.0], "d": "1"})
    assert hurray.from_safetensors(out.getvalue()).kv == {"a": "1", "b": "true", "c": "[1.5, 2.0]", "d": "1"}


# Sharded checkpoints


def shards(tmp_path: Path) -> Path:
    peer.save_file(
        {"a": np.arange(3.0), "b": np.arange(4.0)}, tmp_path / "m-1.safetensors", metadata={"format": "pt", "n": "1"}
    )
    peer.save_file({"c": np.arange(5.0)}, tmp_path / "m-2.safetensors", metadata={"format": "pt", "n": "2"})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps(
            {
                "metadata": {"total_size": 96},
                "weight_map": {"c": "m-2.safetensors", "a": "m-1.safetensors", "b": "m-1.safetensors"},
            }
        )
    )
    return index


def test_sharded_checkpoint_is_one_set(tmp_path: Path) -> None:
    with hurray.from_safetensors(shards(tmp_path)) as found:
        assert sorted(found) == ["a", "b", "c"]
        assert found["c"].to_numpy().tolist() == [0, 1, 2, 3, 4]
        assert found["b"].to_numpy().tolist() == [0, 1, 2, 3]
        assert found.kv == {"format": "pt", "m-1.safetensors/n": "1", "m-2.safetensors/n": "2"}


@pytest.mark.parametrize(
    "place", ["../m-1.safetensors", "/etc/passwd", "", "..", "a/b", "a\\b", 5, None, "c:x", "nul\0"]
)
def test_index_cannot_reach_elsewhere(tmp_path: Path, place: Any) -> None:
    index = shards(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": place}}))
    with pytest.raises(hurray.FileError):
        hurray.from_safetensors(index)


def test_index_must_tell_the_truth(tmp_path: Path) -> None:
    index = shards(tmp_path)
    index.write_text(json.dumps({"weight_map": {"absent": "m-1.safetensors"}}))
    with pytest.raises(hurray.FileError, match="absent"):
        hurray.from_safetensors(index)
    index.write_text(json.dumps({"weight_map": {"a": "m-9.safetensors"}}))
    with pytest.raises(FileNotFoundError, match=r"m-9\.safetensors"):
        hurray.from_safetensors(index)
    index.write_text("[]")
    with pytest.raises(hurray.FileError, match="weight_map"):
        hurray.from_safetensors(index)


# Damage

GOOD = entry("U8", [2], 0, 2)
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "seven bytes": b"\x02\0\0\0\0\0\0",
    "length past the end": struct.pack("<Q", 50) + b"{}",
    "length of 2**63": struct.pack("<Q", 2**63) + b"{}",
    "header over the limit": struct.pack("<Q", 100_000_001) + b"{}",
    "no object": raw(b"[]"),
    "blank before": raw(b" {}"),
    "not JSON": raw(b"{,}"),
    "cut JSON": raw(b'{"a":'),
    "not UTF-8": raw(b'{"\xff":1}'),
    "UTF-16": raw("{}".encode("utf-16")),
    "deep": raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "name twice": raw(
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    ),
    "half a surrogate": raw(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "metadata not text": raw(b'{"__metadata__":{"a":1}}'),
    "metadata a list": raw(b'{"__metadata__":[]}'),
    "entry a number": raw({"a": 1}),
    "no dtype": raw({"a": {"shape": [0], "data_offsets": [0, 0]}}),
    "extra field": raw({"a": {**entry("U8", [0], 0, 0), "x": 1}}),
    "unknown dtype": raw({"a": entry("F7", [0], 0, 0)}),
    "dtype a list": raw(b'{"a":{"dtype":[],"shape":[0],"data_offsets":[0,0]}}'),
    "negative size": raw({"a": entry("U8", [-1], 0, 0)}),
    "size a float": raw({"a": entry("U8", [1.0], 0, 1)}, b"x"),
    "size a bool": raw({"a": entry("U8", [True], 0, 1)}, b"x"),
    "size 2**64 - 1": raw({"a": entry("U8", [2**64 - 1, 0], 0, 0)}),
    "sizes that wrap": raw({"a": entry("U8", [2**32, 2**32], 0, 0)}),
    "rank 65": raw({"a": entry("U8", [1] * 65, 0, 1)}, b"x"),
    "three offsets": raw(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}}'),
    "offsets reversed": raw({"a": entry("U8", [2], 2, 0)}, b"xx"),
    "wrong length": raw({"a": entry("U16", [2], 0, 2)}, b"xx"),
    "hole before": raw({"a": entry("U8", [2], 1, 3)}, b"xxx"),
    "hole between": raw({"a": GOOD, "b": entry("U8", [2], 3, 5)}, b"xxxxx"),
    "overlap": raw({"a": GOOD, "b": entry("U8", [2], 1, 3)}, b"xxx"),
    "same place": raw({"a": GOOD, "b": GOOD}, b"xx"),
    "past the end": raw({"a": GOOD}, b"x"),
    "bytes behind": raw({"a": GOOD}, b"xxx"),
    "half a byte": raw({"a": entry("F4", [1], 0, 1)}, b"x"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_a_file_error(case: str) -> None:
    with pytest.raises(hurray.FileError) as caught:
        hurray.from_safetensors(DAMAGED[case])
    assert 8 < len(str(caught.value)) < 2000


def test_missing_file_names_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        hurray.from_safetensors(tmp_path / "absent.safetensors")


def test_foreign_float8_is_refused_by_name() -> None:
    found = hurray.from_safetensors(raw({"w": entry("F8_E4M3FNUZ", [1], 0, 1)}, b"x"))
    with pytest.raises(hurray.UnsupportedError, match=r"'w'.*F8_E4M3FNUZ"):
        found["w"]


def test_boolean_must_be_0_or_1() -> None:
    found = hurray.from_safetensors(raw({"w": entry("BOOL", [3], 0, 3)}, b"\1\0\2"))
    with pytest.raises(hurray.FileError, match="boolean 2 is the byte 2"):
        found["w"]


SEED = bytearray(raw({"a": entry("F32", [2, 2], 0, 16), "b": entry("BOOL", [3], 16, 19)}, bytes(16) + b"\1\0\1"))


@given(st.integers(0, len(SEED) - 1), st.integers(0, 255), st.integers(0, len(SEED)))
def test_damage_gives_a_value_or_our_error(at: int, value: int, length: int) -> None:
    damaged = bytearray(SEED)
    damaged[at] = value
    for blob in (bytes(damaged), bytes(damaged[:length])):
        try:
            found = hurray.from_safetensors(blob)
            for name in found:
                found[name].to_numpy()
        except hurray.HurrayError:
            pass
