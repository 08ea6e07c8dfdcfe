"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hurray
from helpers import corpus, negative_cases, our_env

pytest.importorskip("typer")
pytest.importorskip("rich")

from hurray.cli._annotate import annotate
from hurray.cli._slices import parse_key
from hurray.cli.main import COMMANDS, run
from hurray.descriptor import decode_descriptor

Run = tuple[int, str, str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> object:
    """Return a function that runs the command line in this process."""

    def call(*arguments: object) -> Run:
        code = run([str(a) for a in arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "s.hrry"
    w = np.arange(24, dtype=np.float32).reshape(4, 6)
    tensors = {
        "w": w,
        "b": np.arange(3, dtype=np.int64),
        "sparse": hurray.from_numpy(np.eye(5)).to_layout("csr"),
        "q": hurray.Tensor(np.array([1, 3], np.int8), hurray.int8, [2], quantization=hurray.PerTensorAffine(0.5, 1)),
        "g": hurray.Composite(
            "group", shape=[], dtype=hurray.float32, members=[hurray.from_numpy(w), hurray.ones([2])]
        ),
    }
    hurray.save(path, tensors, kv={"step": 12, "raw": b"\0\1", "name": "x"})
    return path


def one_line(err: str) -> str:
    assert err.startswith("hurray: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


# Every command


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, call: object) -> None:
    code, out, err = call(command, "--help")  # type: ignore[operator]
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: hurray {command}")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("convert", "cat")])
def test_missing_file_is_one_line_and_code_1(command: str, call: object, tmp_path: Path) -> None:
    code, out, err = call(command, tmp_path / "absent.hrry")  # type: ignore[operator]
    assert (code, out) == (1, "")
    assert "absent.hrry" in one_line(err)


@pytest.mark.parametrize(
    "arguments", [["nope"], ["ls"], ["ls", "--nope", "x"], ["cat", "x"], ["convert", "x"], ["verify"]]
)
def test_wrong_calls_are_code_2(arguments: list[str], call: object) -> None:
    code, out, err = call(*arguments)  # type: ignore[operator]
    assert (code, out) == (2, "")
    one_line(err)


def test_no_arguments_shows_help(call: object) -> None:
    code, out, err = call()  # type: ignore[operator]
    assert (code, err) == (2, "")
    for command in COMMANDS:
        assert f"\n  {command} " in out


def test_version(call: object) -> None:
    assert call("--version") == (0, f"hurray {hurray.__version__}\n", "")  # type: ignore[operator]


def test_as_a_module(sample: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hurray", "ls", str(sample)], capture_output=True, text=True, env=our_env(), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "sparse" in done.stdout


def test_completion_script_is_offered() -> None:
    env = {**our_env(), "_HURRAY_COMPLETE": "source_bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run([sys.executable, "-m", "hurray"], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0
    assert "complete" in done.stdout


def test_without_the_extra_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')\n")
    env = our_env()
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "hurray", "ls", "x"], capture_output=True, text=True, env=env, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install typer rich" in one_line(done.stderr)


def test_a_closed_pipe_is_no_traceback(sample: Path) -> None:
    script = "import sys; from hurray.cli.main import run; sys.exit(run(['ls', sys.argv[1]]))"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(sample)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=our_env()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


# ls


def test_ls_table(call: object, sample: Path) -> None:
    code, out, _ = call("ls", sample)  # type: ignore[operator]
    assert code == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["w"][1:] == ["float32", "4x6", "row_major", "96", "B"]
    assert rows["sparse"][1:] == ["float64", "5x5", "csr", "128", "B"]
    assert rows["q"][1:] == ["int8", "(per_tensor_affine)", "2", "row_major", "2", "B"]
    assert rows["g"][1:] == ["float32", "scalar", "composite", "of", "2", "112", "B"]
    assert "  g.1  " in out
    assert "5 tensors, 362 B, 3 metadata entries" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_ls_json(call: object, sample: Path) -> None:
    code, out, _ = call("ls", "--json", sample)  # type: ignore[operator]
    found = json.loads(out)
    assert code == 0
    assert found["kv"] == {"step": 12, "raw": {"bytes": "0001"}, "name": "x"}
    names = [t["name"] for t in found["tensors"]]
    assert names == ["w", "b", "sparse", "q", "g", "g.0", "g.1"]
    assert found["tensors"][3] == {
        "name": "q",
        "dtype": "int8",
        "shape": [2],
        "layout": "row_major",
        "bytes": 2,
        "quantization": "per_tensor_affine",
        "depth": 0,
        "members": 0,
    }
    assert [t["depth"] for t in found["tensors"]] == [0, 0, 0, 0, 0, 1, 1]


def test_ls_nested_composites_add_up(call: object) -> None:
    code, out, _ = call("ls", "--json", corpus("peer") / "composites_file.hrry")  # type: ignore[operator]
    assert code == 0
    sizes = {t["name"]: t for t in json.loads(out)["tensors"]}
    assert sizes["g.1"]["members"] == 2
    assert sizes["g.1.0"]["depth"] == 2
    assert sizes["g.1"]["bytes"] == sizes["g.1.0"]["bytes"] + sizes["g.1.1"]["bytes"] == 10
    assert sizes["g"]["bytes"] == sizes["g.0"]["bytes"] + 10


def test_names_cannot_steer_the_terminal(call: object, tmp_path: Path) -> None:
    path = tmp_path / "evil.hrry"
    hurray.save(path, {"\x1b[2Jx\nfake": hurray.ones([1]), "[red]plain": hurray.ones([1])})
    code, out, _ = call("ls", path)  # type: ignore[operator]
    assert code == 0
    assert "\x1b" not in out
    assert r"\x1b[2Jx\nfake" in out
    assert "[red]plain" in out
    _, _, err = call("cat", path, "\x1b[2J")  # type: ignore[operator]
    assert "\x1b" not in one_line(err)


# cat


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("0:2, ::3", "[[0., 3.],\n [6., 9.]]\n"),
        ("-1", "[18., 19., 20., 21., 22., 23.]\n"),
        ("[1, -1]", "11.\n"),
        ("..., 0", "[ 0.,  6., 12., 18.]\n"),
    ],
)
def test_cat(call: object, sample: Path, key: str, want: str) -> None:
    code, out, err = call("cat", sample, "w", key)  # type: ignore[operator]
    assert (code, err) == (0, "")
    assert out.replace(".0\n", ".\n") == want


def test_cat_quantized_sparse_and_member(call: object, sample: Path) -> None:
    assert call("cat", sample, "q")[1] == "[0., 1.]\n"  # type: ignore[operator]
    assert call("cat", sample, "q", "--storage")[1] == "[1, 3]\n"  # type: ignore[operator]
    assert call("cat", sample, "sparse", "1:3, 0:3")[1] == "[[0., 1., 0.],\n [0., 0., 1.]]\n"  # type: ignore[operator]
    assert call("cat", sample, "g.1")[1] == "[1., 1.]\n"  # type: ignore[operator]


def test_cat_saves(call: object, sample: Path, tmp_path: Path) -> None:
    assert call("cat", sample, "w", ":, 2", "-o", tmp_path / "c.npy") == (0, "", "")  # type: ignore[operator]
    assert np.load(tmp_path / "c.npy").tolist() == [2, 8, 14, 20]
    assert call("cat", sample, "w", "0", "-o", tmp_path / "c.hrry")[0] == 0  # type: ignore[operator]
    assert hurray.load(tmp_path / "c.hrry")["w"].to_numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_cat_full_prints_every_value(call: object, tmp_path: Path) -> None:
    path = tmp_path / "long.hrry"
    hurray.save(path, {"x": np.arange(5000)})
    assert "..." in call("cat", path, "x")[1]  # type: ignore[operator]
    assert len(re.findall(r"\d+", call("cat", path, "x", "--full")[1])) == 5000  # type: ignore[operator]


def test_cat_says_what_is_wrong(call: object, sample: Path) -> None:
    code, _, err = call("cat", sample, "nope")  # type: ignore[operator]
    assert code == 1
    assert "'nope'" in one_line(err)
    code, _, err = call("cat", sample, "w", "9")  # type: ignore[operator]
    assert code == 1
    assert "out of bounds" in one_line(err)
    for key in ("a:b", "1:2:3:4", "::0", "1,,2", "..., ..."):
        code, _, err = call("cat", sample, "w", key)  # type: ignore[operator]
        assert code == 2
        one_line(err)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", (...,)),
        ("[]", (...,)),
        ("3", (3,)),
        ("-1,", (-1,)),
        ("1:2, ::-1", (slice(1, 2), slice(None, None, -1))),
        ("[..., 0]", (..., 0)),
        (":", (slice(None),)),
    ],
)
def test_parse_key(text: str, key: object) -> None:
    assert parse_key(text) == key


# convert


@pytest.mark.parametrize("ending", ["safetensors", "npz", "hstream", "hrry"])
def test_convert_there_and_back(call: object, tmp_path: Path, ending: str) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False, True]), "c": np.array(7, np.uint16)}
    hurray.save(tmp_path / "a.hrry", arrays)
    middle = tmp_path / f"m.{ending}"
    assert call("convert", tmp_path / "a.hrry", middle) == (0, "", "")  # type: ignore[operator]
    assert call("convert", middle, tmp_path / "b.hrry") == (0, "", "")  # type: ignore[operator]
    back = list(hurray.load(tmp_path / "b.hrry").values())
    for want in arrays.values():
        assert any(
            got.shape == want.shape and got.to_numpy().dtype == want.dtype and np.array_equal(got.to_numpy(), want)
            for got in back
        )
    assert len(back) == 3


def test_convert_onto_itself_and_names(call: object, sample: Path) -> None:
    assert call("convert", sample, sample, "-n", "b", "-n", "w", "--no-kv")[0] == 0  # type: ignore[operator]
    assert list(hurray.load(sample)) == ["b", "w"]
    assert hurray.load_kv(sample) == {}


def test_convert_refuses_and_keeps_the_old_file(call: object, sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.safetensors"
    target.write_bytes(b"old")
    code, _, err = call("convert", sample, target, "--no-kv")  # type: ignore[operator]
    assert code == 1
    assert "'sparse'" in one_line(err)
    assert target.read_bytes() == b"old"
    assert call("convert", sample, tmp_path / "t.foo")[0] == 1  # type: ignore[operator]
    assert call("convert", sample, target, "--to", "nope")[0] == 1  # type: ignore[operator]
    assert call("convert", sample, target, "-n", "nope")[0] == 1  # type: ignore[operator]
    assert target.read_bytes() == b"old"
    code, _, err = call("convert", sample, target, "-n", "sparse", "-n", "q", "--densify", "--dequantize", "--no-kv")  # type: ignore[operator]
    assert (code, err) == (0, "")
    with hurray.from_safetensors(target) as found:
        assert found["sparse"].to_numpy().tolist() == np.eye(5).tolist()
        assert found["q"].to_numpy().tolist() == [0, 1]


# verify


def test_verify(call: object, sample: Path, tmp_path: Path) -> None:
    assert call("verify", sample) == (0, f"{sample}: ok\n", "")  # type: ignore[operator]
    assert call("verify", "--quiet", sample) == (0, "", "")  # type: ignore[operator]
    bad = tmp_path / "bad.hrry"
    data = bytearray(sample.read_bytes())
    data[-60] ^= 1
    bad.write_bytes(data)
    code, out, err = call("verify", sample, bad)  # type: ignore[operator]
    assert (code, err) == (1, "")
    assert out.startswith(f"{sample}: ok\n{bad}: error")
    code, out, err = call("verify", "--json", sample, bad)  # type: ignore[operator]
    assert (code, err) == (1, "")
    whole, damaged = json.loads(out)
    assert whole == {"path": str(sample), "ok": True, "tensors": 7, "bytes": whole["bytes"], "problems": []}
    assert (damaged["path"], damaged["ok"]) == (str(bad), False)
    assert damaged["problems"][0]["rule"] == "trailer.index_crc32c"


@pytest.mark.parametrize("case", negative_cases("file"), ids=lambda c: c["id"])
def test_verify_agrees_with_the_corpus(call: object, case: dict[str, str]) -> None:
    code, out, err = call("verify", corpus("negative") / case["file"])  # type: ignore[operator]
    assert err == ""
    assert code == (1 if case["expect"] == "reject" else 0), out


def test_help_says_what_each_command_does(call: object) -> None:
    code, out, _ = call("--help")  # type: ignore[operator]
    assert code == 0
    for name in COMMANDS:
        line = next(line for line in out.splitlines() if line.split()[:1] == [name])
        assert line.endswith("."), line
        assert "..." not in line
    _, out, _ = call("convert", "--help")  # type: ignore[operator]
    words = out.split()
    target = words[words.index("--to") : words.index("--name")] if "--name" in words else words[words.index("--to") :]
    assert "gguf," not in target[: target.index("npy.") + 1]


def test_a_mistyped_name_is_answered(call: object, sample: Path) -> None:
    code, out, err = call("cat", sample, "sparze")  # type: ignore[operator]
    assert (code, out, err) == (1, "", "hurray: no tensor 'sparze'; did you mean 'sparse'?\n")
    assert call("cat", sample, "zzzz")[2] == "hurray: no tensor 'zzzz'; 'hurray ls' lists them\n"  # type: ignore[operator]


# inspect


def test_inspect_a_tensor_in_a_file(call: object, sample: Path) -> None:
    code, out, err = call("inspect", sample, "w")  # type: ignore[operator]
    assert (code, err) == (0, "")
    assert out.startswith("float32 4x6, layout row_major, 1 buffer of 96 B, on cpu\n")
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[3:]]
    assert rows[0] == ["64", "48 52 52 59", "magic", "b'HRRY'"]
    assert ["78", "03", "type_tag", "3: float32"] in rows
    assert ["84", "04 00 00 00 00 00 00 00", "shape[0]", "4"] in rows


def test_inspect_wants_a_name_where_there_are_many(call: object, sample: Path) -> None:
    code, _, err = call("inspect", sample)  # type: ignore[operator]
    assert code == 2
    assert "7 tensors" in one_line(err)


def test_inspect_a_stream_at_an_offset(call: object, tmp_path: Path) -> None:
    writer = hurray.StreamWriter()
    writer.write(hurray.ones([2]))
    first = len(writer.getvalue())
    writer.write(hurray.zeros([3]))
    path = tmp_path / "s.hstream"
    path.write_bytes(writer.getvalue())
    code, out, _ = call("inspect", path, "--at", first)  # type: ignore[operator]
    assert code == 0
    assert out.startswith("float64 3,")
    assert f" {first} " in out or f"\n{first} " in out
    assert call("inspect", path, "--at", 10**9)[0] == 1  # type: ignore[operator]


@pytest.mark.parametrize("case", negative_cases("descriptor", "decode"), ids=lambda c: c["id"])
def test_inspect_marks_where_it_breaks(call: object, case: dict[str, str]) -> None:
    if case["strength"] == "ambiguous":
        pytest.skip("the format leaves room here")
    code, out, err = call("inspect", corpus("negative") / case["file"])  # type: ignore[operator]
    marked = [line for line in out.splitlines() if line.strip().startswith("! ")]
    if case["expect"] == "accept":
        assert (code, marked, err) == (0, [], "")
    else:
        assert code == 1
        assert len(marked) == 1
        one_line(err)


def test_annotation_covers_every_byte(call: object) -> None:
    for artefact in ("dtypes_row_major",):
        with hurray.open(corpus("peer") / f"{artefact}.hrry") as file:
            data, base = file.descriptor_bytes("float16")
    trace: list[object] = []
    decode_descriptor(data, trace=trace)  # type: ignore[arg-type]
    rows = annotate(data, trace, base=base)  # type: ignore[arg-type]
    assert rows[0].offset == base
    assert sum(row.n_bytes for row in rows) == len(data)
