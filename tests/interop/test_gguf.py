"""GGUF files in: every kind against the tool that defines it, edge blocks by hand, and files that lie."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hurray
from gguf_files import Record, gguf_file, one_tensor, pair
from hurray.interop._gguf_kinds import KINDS, Kind, decode, keep

gguf = pytest.importorskip("gguf")

SYMMETRIC = ["Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "NVFP4", "MXFP4"]
SPLIT = [k.name for k in KINDS.values() if k.split is not None]
NO_ORACLE = {"Q8_1", "Q8_K"}
#: bytes of the float16 numbers of a block
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q8_1": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
}  # fmt: skip


def kind_of(name: str) -> tuple[int, Kind]:
    return next((number, kind) for number, kind in KINDS.items() if kind.name == name)


def random_blocks(name: str, n: int, seed: int = 0, *, tame: bool = True) -> NDArray[np.uint8]:
    """Return random blocks; tame ones have finite scales that are not 0."""
    _, kind = kind_of(name)
    rng = np.random.default_rng([seed, *name.encode()])
    blocks = rng.integers(0, 256, (n, kind.n_bytes), dtype=np.uint8)
    if tame:
        for at in HALVES.get(name, []):
            numbers = np.ldexp(rng.uniform(1, 2, n), rng.integers(-14, 8, n)) * rng.choice([-1, 1], n)
            blocks[:, at : at + 2] = numbers.astype("<f2")[:, None].view(np.uint8)
    if tame and name == "MXFP4":
        blocks[:, 0] = rng.integers(1, 255, n)
    if tame and name == "Q8_K":
        blocks[:, :4] = rng.standard_normal(n).astype("<f4")[:, None].view(np.uint8)
    return blocks


def oracle(name: str, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    number, _ = kind_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(number)), np.float32)


def assert_bits(got: NDArray[np.float32], want: NDArray[np.float32], *, signs: bool = True) -> None:
    """Assert equal bits (any NaN equals any NaN); without ``signs`` 0 equals -0."""
    same = got.view(np.uint32) == want.view(np.uint32)
    same |= np.isnan(got) & np.isnan(want)
    if not signs:
        same |= (got == 0) & (want == 0)
    assert same.all()


def kept(name: str, blocks: NDArray[np.uint8]) -> hurray.Tensor | None:
    _, kind = kind_of(name)
    return keep(kind, blocks.reshape(-1), (len(blocks), kind.block))


# Kinds


@pytest.mark.parametrize("name", SPLIT)
def test_numbers_of_any_block_are_those_of_the_tool(name: str) -> None:
    if name in NO_ORACLE:
        pytest.skip("the tool has no such kind")
    blocks = random_blocks(name, 97, tame=False)
    _, kind = kind_of(name)
    got = decode(kind, blocks.reshape(-1), (97, kind.block)).to_numpy()
    assert_bits(got, oracle(name, blocks))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_kept_quantization_gives_the_numbers_of_the_tool(name: str) -> None:
    blocks = random_blocks(name, 300)
    t = kept(name, blocks)
    assert t is not None
    assert t.quantization is not None
    # The scales of parts of a block may be 0, and 0 times a negative number is -0.
    signs = name in ("Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "TQ1_0", "MXFP4")
    assert_bits(t.dequantize().to_numpy(), oracle(name, blocks), signs=signs)


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K", "TQ2_0"])
def test_kept_quantization_without_an_oracle(name: str) -> None:
    blocks = random_blocks(name, 5)
    if name == "TQ2_0":
        # Both bits set is no ternary digit.
        both = blocks[:, :64] & (blocks[:, :64] >> 1) & 0x55
        blocks[:, :64] ^= both
    t = kept(name, blocks)
    assert t is not None
    got = t.dequantize().to_numpy()
    for b, block in enumerate(blocks.tolist()):
        for k in range(got.shape[1]):
            if name == "TQ2_0":
                scale = np.frombuffer(bytes(block[64:66]), "<f2")[0]
                code = ((block[k // 128 * 32 + k % 32] >> (2 * (k // 32 % 4))) & 3) - 1
            else:
                width, dtype, at = (4, "<f4", 4) if name == "Q8_K" else (2, "<f2", 4)
                scale = np.frombuffer(bytes(block[:width]), dtype)[0]
                code = struct.unpack("b", bytes([block[at + k]]))[0]
            assert got[b, k] == np.float32(scale) * np.float32(code)


@pytest.mark.parametrize("name", ["Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "IQ4_NL", "TQ1_0"])
@pytest.mark.parametrize("bits", [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF])
def test_edge_scales(name: str, bits: int) -> None:
    blocks = random_blocks(name, 4)
    at = HALVES[name][0]
    blocks[1, at : at + 2] = np.array([bits], "<u2").view(np.uint8)
    t = kept(name, blocks)
    assert t is not None
    assert_bits(t.dequantize().to_numpy(), oracle(name, blocks), signs=False)
    t.validate()


@pytest.mark.parametrize("name", ["Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "Q4_1", "Q5_1"])
@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E01])
def test_scales_that_are_no_numbers_cannot_be_kept(name: str, bits: int) -> None:
    blocks = random_blocks(name, 3)
    at = HALVES[name][0]
    blocks[2, at : at + 2] = np.array([bits], "<u2").view(np.uint8)
    assert kept(name, blocks) is None


def minimum_blocks(name: str, scale: NDArray[Any], minimum: NDArray[Any], codes: NDArray[np.uint8]) -> Any:
    _, kind = kind_of(name)
    blocks = np.zeros((len(scale), kind.n_bytes), np.uint8)
    blocks[:, :2] = scale.astype("<f2")[:, None].view(np.uint8)
    blocks[:, 2:4] = minimum.astype("<f2")[:, None].view(np.uint8)
    low = codes & 15
    if name == "Q5_1":
        blocks[:, 4:8] = np.packbits(codes >> 4, axis=1, bitorder="little")
    blocks[:, -16:] = low[:, :16] | (low[:, 16:] << 4)
    return blocks


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["Q4_1", "Q5_1"]))
def test_whole_minima_become_zero_points(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    n, most = 12, 15 if name == "Q4_1" else 31
    # Few bits, so that scale times step is a float16 number.
    scale = np.ldexp(rng.integers(1, 64, n), rng.integers(-12, 2, n)) * rng.choice([-1, 1], n)
    steps = rng.integers(0, most + 1, n)
    minimum = -scale * steps
    minimum[steps == 0] = rng.choice([0.0, -0.0], int((steps == 0).sum()))
    codes = rng.integers(0, most + 1, (n, 32)).astype(np.uint8)
    codes[:, 0] = steps
    constant = rng.random(n) < 0.2
    scale[constant] = rng.choice([0.0, -0.0])
    minimum[constant] = rng.choice([0.0, -0.0, 1.5, -2.0])
    blocks = minimum_blocks(name, scale, minimum, codes)
    t = kept(name, blocks)
    assert t is not None
    got, want = t.dequantize().to_numpy(), oracle(name, blocks)
    assert_bits(got, want, signs=False)
    assert_bits(got[~constant], want[~constant])
    t.validate()


@pytest.mark.parametrize("name", ["Q4_1", "Q5_1"])
@pytest.mark.parametrize(
    ("scale", "minimum"), [(1.0, -0.5), (1.0, 1.0), (0.5, -200.0), (1.0, np.inf), (0.0, np.nan), (0.1, -0.3001)]
)
def test_minima_that_are_no_whole_steps_cannot_be_kept(name: str, scale: float, minimum: float) -> None:
    blocks = minimum_blocks(name, np.array([scale]), np.array([minimum]), np.ones((1, 32), np.uint8))
    assert kept(name, blocks) is None


def test_a_zero_point_may_lie_beyond_the_five_bits_of_the_codes() -> None:
    codes = np.arange(32, dtype=np.uint8)[None]
    blocks = minimum_blocks("Q5_1", np.array([-0.5]), np.array([100.0]), codes)
    t = kept("Q5_1", blocks)
    assert t is not None
    assert_bits(t.dequantize().to_numpy(), oracle("Q5_1", blocks))


@pytest.mark.parametrize("exponent", [0, 1, 2, 127, 253, 254, 255])
def test_mx_blocks_at_the_ends_of_the_exponents(exponent: int) -> None:
    blocks = np.zeros((2, 17), np.uint8)
    blocks[:, 0] = exponent
    # Codes 0 and 8 only: zeros fit whatever the exponent says.
    blocks[0, 1:] = 0x80
    t = kept("MXFP4", blocks)
    assert t is not None
    assert not t.dequantize().to_numpy().any()
    blocks[1, 1:] = np.arange(16) | (15 - np.arange(16)) << 4
    t = kept("MXFP4", blocks)
    assert (t is None) == (exponent in (0, 255))
    if t is not None:
        assert_bits(t.dequantize().to_numpy(), oracle("MXFP4", blocks))


def test_a_ternary_code_of_two_cannot_be_kept() -> None:
    blocks = random_blocks("TQ2_0", 1)
    blocks[0, 0] = 0xFF
    assert kept("TQ2_0", blocks) is None


# Files


def written(path: Path, build: Any) -> Path:
    writer = gguf.GGUFWriter(path, "test")
    build(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


PLAIN = ["float32", "float16", "float64", "int8", "int16", "int32", "int64"]


def test_plain_tensors_are_views_in_numpys_order(tmp_path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {d: np.arange(24).astype(d).reshape(2, 3, 4) for d in PLAIN}
    arrays["one"] = np.arange(5, dtype=np.float32)

    def build(writer: Any) -> None:
        for name, array in arrays.items():
            writer.add_tensor(name, array)
        raw = np.arange(12, dtype=np.uint16).reshape(3, 4)
        writer.add_tensor("brain", raw.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    with hurray.from_gguf(written(tmp_path / "a.gguf", build)) as f:
        assert list(f) == [*arrays, "brain"]
        assert len(f) == len(arrays) + 1
        assert "one" in f
        for name, array in arrays.items():
            got = f[name].to_numpy(copy=False)
            assert got.dtype == array.dtype
            np.testing.assert_array_equal(got, array)
        brain = f["brain"]
        assert brain.dtype == hurray.bfloat16
        assert brain.shape == (3, 4)
        assert bytes(brain.buffer(0).to_numpy()) == np.arange(12, dtype=np.uint16).tobytes()
        assert f.report.counts("tensor") == {"kept": len(arrays) + 1}
        one = f["one"]
    assert one.to_numpy().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "Q6_K"])
def test_quantized_files_of_the_tool(tmp_path: Path, name: str) -> None:
    number, kind = kind_of(name)
    blocks = random_blocks(name, 6).reshape(3, -1)

    def build(writer: Any) -> None:
        writer.add_tensor("w", blocks, raw_dtype=gguf.GGMLQuantizationType(number))

    path = written(tmp_path / "q.gguf", build)
    want = oracle(name, blocks.reshape(-1, kind.n_bytes)).reshape(3, 2 * kind.block)
    with hurray.from_gguf(path, other="dequantize") as f:
        t = f["w"]
        assert t.shape == want.shape
        got = t.to_numpy() if t.quantization is None else t.dequantize().to_numpy()
        assert_bits(got, want, signs=name != "Q6_K")
        outcome = f.report.tensors["w"].outcome
        assert outcome == ("dequantized" if kind.by_data else "widened" if kind.bits else "kept")
        assert (t.quantization is None) == kind.by_data


def test_what_cannot_be_kept_is_listed(tmp_path: Path) -> None:
    def build(writer: Any) -> None:
        for name in ("Q4_K", "IQ2_XS", "Q8_0"):
            number, kind = kind_of(name)
            raw = np.zeros((2, kind.n_bytes), np.uint8)
            writer.add_tensor(f"blk.{name}", raw, raw_dtype=gguf.GGMLQuantizationType(number))

    path = written(tmp_path / "k.gguf", build)
    with pytest.raises(hurray.UnsupportedError, match="other='dequantize'") as caught:
        hurray.from_gguf(path)
    assert "blk.Q4_K: Q4_K" in str(caught.value)
    assert "blk.IQ2_XS: IQ2_XS" in str(caught.value)
    assert "Q8_0" not in str(caught.value)
    with pytest.raises(hurray.UnsupportedError, match=r"IQ2_XS") as caught:
        hurray.from_gguf(path, other="dequantize")
    assert "Q4_K" not in str(caught.value)
    with hurray.from_gguf(path, other="skip") as f:
        assert list(f) == ["blk.Q8_0"]
        assert f.report.counts("tensor") == {"kept": 1, "skipped": 2}
        assert "skipped: tensor blk.Q4_K" in str(f.report)
    with pytest.raises(ValueError, match="other is one of"):
        hurray.from_gguf(path, other="keep")  # type: ignore[arg-type]


def test_minima_decide_when_a_tensor_is_read() -> None:
    codes = np.ones((1, 32), np.uint8)
    good = minimum_blocks("Q4_1", np.array([0.5]), np.array([-1.0]), codes).tobytes()
    bad = minimum_blocks("Q4_1", np.array([0.5]), np.array([-1.1]), codes).tobytes()
    records = [Record(b"good", [32], 3, 0), Record(b"bad", [32], 3, 32)]
    raw = gguf_file((), records, good + bytes(12) + bad)
    with hurray.from_gguf(raw) as f:
        assert f.report.counts("tensor") == {"undecided": 2}
        assert f["good"].dequantize().to_numpy().tolist() == [-0.5] * 32
        with pytest.raises(hurray.UnsupportedError, match="tensor 'bad' is Q4_1.*whole number"):
            f["bad"]
        assert f.report.counts("tensor") == {"kept": 1, "refused": 1}
    with hurray.from_gguf(raw, other="dequantize") as f:
        assert_bits(f["bad"].to_numpy(), oracle("Q4_1", np.frombuffer(bad, np.uint8).reshape(1, -1))[0])
        assert f["good"].quantization is not None
    with hurray.from_gguf(raw, other="skip") as f:
        assert list(f) == ["good"]


def test_metadata(tmp_path: Path) -> None:
    def build(writer: Any) -> None:
        writer.add_uint8("u8", 255)
        writer.add_int8("i8", -128)
        writer.add_uint32("u32", 2**32 - 1)
        writer.add_uint64("u64", 2**64 - 1)
        writer.add_int64("i64", -(2**63))
        writer.add_float32("f32", 0.1)
        writer.add_float64("f64", 0.1)
        writer.add_bool("on", True)
        writer.add_string("text", "Grüße")
        writer.add_array("words", ["a", "b c", ""])
        writer.add_array("numbers", [1, 2, -3])
        writer.add_array("flags", [True, False])
        writer.add_array("reals", [0.5, 0.1])
        writer.add_tensor("w", np.zeros(1, np.float32))

    path = written(tmp_path / "m.gguf", build)
    tenth = float(np.float32(0.1))
    want = {
        "u8": 255, "i8": -128, "u32": 2**32 - 1, "u64": 2**64 - 1, "i64": -(2**63), "f32": tenth, "f64": 0.1,
        "on": True, "text": "Grüße", "words": ["a", "b c", ""], "numbers": [1, 2, -3], "flags": [True, False],
        "reals": [0.5, tenth],
    }  # fmt: skip
    with hurray.from_gguf(path) as f:
        assert {key: f.kv[key] for key in want} == want
        assert f.kv["on"] is True
        assert f.kv["flags"][0] is True
        assert f.report.keys["f32"].outcome == "widened"
        assert f.report.keys["text"].outcome == "kept"
        assert f.report.keys["u32"].target == "int64"
    hurray.convert(path, tmp_path / "m.hrry")
    assert {key: hurray.load_kv(tmp_path / "m.hrry")[key] for key in want} == want


def test_strings_that_are_not_unicode_stay_bytes() -> None:
    raw = gguf_file([pair(b"a", "str", b"\xff"), pair(b"b", "arr", ("str", [b"ok", b"\xc3"]))])
    with hurray.from_gguf(raw) as f:
        assert f.kv == {"a": b"\xff", "b": [b"ok", b"\xc3"]}
        assert f.report.keys["b"].target == "array of bytes"


def test_arrays_of_arrays_are_refused_or_left_out() -> None:
    nested = ("arr", [("u8", [1, 2]), ("str", [b"x"])])
    raw = gguf_file([pair(b"deep", "arr", nested), pair(b"after", "u32", 7)])
    with pytest.raises(hurray.UnsupportedError, match="key deep: array of arrays"):
        hurray.from_gguf(raw)
    with hurray.from_gguf(raw, other="skip") as f:
        assert f.kv == {"after": 7}
        assert f.report.counts("key") == {"widened": 1, "skipped": 1}


def test_alignment_scalars_empty_tensors_and_version_2() -> None:
    records = [Record(b"none", [0, 3], 0, 0), Record(b"point", [], 0, 64), Record(b"q", [0], 8, 128)]
    data = bytes(64) + struct.pack("<f", 2.5)
    raw = gguf_file([pair(b"general.alignment", "u32", 64)], records, data, alignment=64, version=2)
    with hurray.from_gguf(raw) as f:
        assert f["none"].shape == (3, 0)
        assert f["none"].to_numpy().size == 0
        assert f["point"].shape == ()
        assert float(f["point"].to_numpy()) == 2.5
        assert f["q"].dequantize().shape == (0,)
    with hurray.from_gguf(one_tensor(39, [0], b""), other="dequantize") as f:
        assert f["w"].shape == (0,)
        assert f["w"].quantization is None


def test_conversion_reports_and_keeps_quantization(tmp_path: Path) -> None:
    typer = pytest.importorskip("typer")
    assert typer
    from hurray.cli.main import run

    blocks = random_blocks("Q8_0", 4)
    source = tmp_path / "x.gguf"
    data = blocks.tobytes() + bytes(-blocks.nbytes % 32)
    records = [Record(b"w", [64, 2], 8, 0), Record(b"k", [256], 12, len(data))]
    source.write_bytes(gguf_file([pair(b"n", "u32", 3)], records, data + random_blocks("Q4_K", 1).tobytes()))
    with pytest.raises(hurray.UnsupportedError):
        hurray.convert(source, tmp_path / "no.hrry")
    assert not (tmp_path / "no.hrry").exists()
    report = hurray.convert(source, tmp_path / "x.hrry", options={"other": "dequantize"})
    assert "1 kept, 1 dequantized" in str(report)
    assert "Q4_K -> float32" in str(report)
    loaded = hurray.load(tmp_path / "x.hrry")
    assert_bits(loaded["w"].dequantize().to_numpy(), oracle("Q8_0", blocks).reshape(2, 64))  # type: ignore[union-attr]
    assert run(["convert", str(source), str(tmp_path / "y.hrry"), "--other", "skip"]) == 0
    assert list(hurray.load(tmp_path / "y.hrry")) == ["w"]


def test_the_command_prints_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    from hurray.cli.main import run

    source = tmp_path / "x.gguf"
    source.write_bytes(one_tensor(0, [1], bytes(4), b"w\x1b"))
    assert run(["convert", str(source), str(tmp_path / "x.hrry")]) == 0
    assert "tensors: 1 kept" in capsys.readouterr().out
    assert run(["convert", str(source), str(tmp_path / "x.hrry"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["convert", str(tmp_path / "x.hrry"), str(tmp_path / "y.npz"), "--other", "skip"]) == 2


# Files that lie


F32 = bytes(128)
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a GGUF file"),
    "magic": (gguf_file(magic=b"GGML"), "not a GGUF file"),
    "short": (b"GGUF\x03\0\0\0", "needs 8 bytes"),
    "tensor count": (gguf_file(n_tensors=2**60), "only"),
    "key count": (gguf_file(n_keys=2**63), "only"),
    "type of a value": (gguf_file([struct.pack("<Q1sI", 1, b"a", 13) + bytes(20)]), "unknown type 13"),
    "array count": (gguf_file([struct.pack("<Q1sIIQ", 1, b"a", 9, 4, 2**61)]), "only"),
    "string count": (gguf_file([struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 2**61)]), "only"),
    "string length": (gguf_file([struct.pack("<Q1sIQ", 1, b"a", 8, 2**64 - 1)]), "only"),
    "boolean": (gguf_file([struct.pack("<Q1sIB", 1, b"a", 7, 2)]), "neither 0 nor 1"),
    "key twice": (gguf_file([pair(b"a", "u8", 1)] * 2), "'a' occurs twice"),
    "key not text": (gguf_file([pair(b"\xff", "u8", 1)]), "not UTF-8"),
    "empty key": (gguf_file([pair(b"", "u8", 1)]), "1 to 65535"),
    "alignment 0": (gguf_file([pair(b"general.alignment", "u32", 0)]), "power of two"),
    "alignment 48": (gguf_file([pair(b"general.alignment", "u32", 48)]), "power of two"),
    "alignment text": (gguf_file([pair(b"general.alignment", "str", b"32")]), "power of two"),
    "name twice": (gguf_file((), [Record(b"a", [1], 0, 0), Record(b"a", [1], 0, 32)], F32), "'a' occurs twice"),
    "no name": (gguf_file((), [Record(b"", [1], 0, 0)], F32), "1 to 65535"),
    "rank": (gguf_file((), [Record(b"a", [1] * 65, 0, 0)], F32), "65 dimensions"),
    "offset": (gguf_file((), [Record(b"a", [1], 0, 4)], F32), "alignment 32"),
    "behind the end": (gguf_file((), [Record(b"a", [33], 0, 0)], F32), "of a file of"),
    "far behind": (gguf_file((), [Record(b"a", [1], 0, 2**64 - 32)], F32), "of a file of"),
    "huge": (gguf_file((), [Record(b"a", [2**62, 2**62], 0, 0)], F32), "63 bits"),
    "huge and empty": (gguf_file((), [Record(b"a", [2**62, 2**62, 0], 0, 0)], F32), "63 bits"),
    "negative": (gguf_file((), [Record(b"a", [2**63], 0, 0)], F32), "63 bits"),
    "rows": (gguf_file((), [Record(b"a", [33], 8, 0)], F32), "do not fill Q8_0 blocks"),
    "scalar block": (gguf_file((), [Record(b"a", [], 8, 0)], F32), "do not fill"),
    "overlap": (gguf_file((), [Record(b"a", [9], 0, 0), Record(b"b", [1], 0, 32)], F32), "'b' overlaps tensor 'a'"),
    "same place": (gguf_file((), [Record(b"a", [1], 0, 32), Record(b"b", [1], 0, 32)], F32), "overlaps"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_lie(case: str) -> None:
    raw, message = BAD[case]
    with pytest.raises(hurray.FileError, match=message):
        hurray.from_gguf(raw)


def test_other_versions_and_byte_orders_are_named() -> None:
    big = b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    with pytest.raises(hurray.UnsupportedError, match="big-endian"):
        hurray.from_gguf(big)
    for version in (1, 4):
        with pytest.raises(hurray.UnsupportedError, match=f"version {version}"):
            hurray.from_gguf(gguf_file(version=version))


def test_unknown_kinds_are_refused_or_left_out() -> None:
    raw = gguf_file((), [Record(b"new", [4], 999, 0), Record(b"old", [2], 0, 32)], bytes(64))
    with pytest.raises(hurray.UnsupportedError, match="tensor new: type 999"):
        hurray.from_gguf(raw)
    with hurray.from_gguf(raw, other="skip") as f:
        assert list(f) == ["old"]


def test_arrays_nested_without_end() -> None:
    raw = struct.pack("<Q1sI", 1, b"a", 9) + struct.pack("<IQ", 9, 1) * 10000
    with pytest.raises(hurray.FileError, match="nested deeper"):
        hurray.from_gguf(gguf_file([raw]))


def sample() -> bytes:
    pairs = [
        pair(b"general.alignment", "u32", 32),
        pair(b"words", "arr", ("str", [b"a", b"bc"])),
        pair(b"deep", "arr", ("arr", [("u8", [1])])),
        pair(b"x", "f64", 0.5),
    ]
    records = [Record(b"w", [32, 2], 8, 0), Record(b"m", [32], 3, 96), Record(b"p", [3], 0, 128)]
    return gguf_file(pairs, records, random_blocks("Q8_0", 3).tobytes()[:96] + bytes(64))


def read_everything(raw: bytes) -> None:
    """Read all of a file that may be anything: a value, or an error of ours."""
    try:
        with hurray.from_gguf(raw, other="dequantize") as f:
            for name in f:
                t = f[name]
                if t.quantization is not None:
                    t.dequantize()
    except hurray.HurrayError:
        pass


def test_every_cut_of_a_file() -> None:
    raw = sample()
    for n in range(len(raw)):
        read_everything(raw[:n])
    with pytest.raises(hurray.FileError):
        hurray.from_gguf(raw[:100], other="skip")


@given(st.data())
def test_any_change_of_a_file(data: st.DataObject) -> None:
    raw = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        width = data.draw(st.sampled_from([1, 4, 8]))
        new = data.draw(st.sampled_from([b"\0" * 8, b"\xff" * 8, struct.pack("<Q", 2**63), struct.pack("<Q", 9)]))
        raw[at : at + width] = new[:width]
    read_everything(bytes(raw))


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    read_everything(raw)
    read_everything(b"GGUF\x03\0\0\0" + raw)
