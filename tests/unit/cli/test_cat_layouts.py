"""``hurray cat`` over every layout, sliced, as coordinates, and saved."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.cli._values import Wanted, find, read_stored, read_values

X = np.arange(24, dtype=np.float32).reshape(4, 6)
SPARSE = np.where(X % 5 == 0, X, 0)
PAGED = np.arange(56, dtype=np.float32).reshape(7, 4, 2)
Call = Callable[..., tuple[int, str, str]]

WANT: dict[str, Any] = {
    **dict.fromkeys(("row_major", "col_major", "strided", "tiled", "morton", "parts"), X),
    "hilbert": X[:, :4],
    **dict.fromkeys(("coo", "csr", "csc"), SPARSE),
    "csf": SPARSE.reshape(2, 2, 6),
}
KEYS = {"...": np.s_[...], "1:3, ::-2": np.s_[1:3, ::-2], "-1": np.s_[-1], ":, 1": np.s_[:, 1], "3:1, 0": np.s_[3:1, 0]}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", WANT)
def test_slices_print_and_save(name: str, key: str, call: Call, every_layout: Path, tmp_path: Path) -> None:
    want = WANT[name][KEYS[key]]
    assert call("cat", every_layout, name, key) == (0, np.array2string(want, separator=", ") + "\n", "")
    for ending in ("npy", "npz", "safetensors", "hrry"):
        assert call("cat", every_layout, name, key, "-o", tmp_path / f"c.{ending}") == (0, "", "")
    with np.load(tmp_path / "c.npz") as archive:
        assert archive[name].tolist() == want.tolist()
    assert np.load(tmp_path / "c.npy").tolist() == want.tolist()
    assert hurray.load(tmp_path / "c.hrry")[name].to_numpy().tolist() == want.tolist()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", WANT)
def test_coordinates_of_what_is_stored(name: str, key: str, call: Call, every_layout: Path) -> None:
    code, out, err = call("cat", every_layout, name, key, "--coords")
    assert (code, err) == (0, "")
    got = {}
    for line in out.splitlines():
        place, _, value = line.partition("  ")
        got[ast.literal_eval(place)] = float(value)
    inside = np.zeros(WANT[name].shape, bool)
    inside[KEYS[key]] = True
    want = {place: float(v) for place, v in np.ndenumerate(WANT[name]) if v != 0 and inside[place]}
    # Printed in row-major order of the whole.
    assert list(got.items()) == list(want.items())


def test_coordinates_keep_explicit_zeros(call: Call, tmp_path: Path) -> None:
    stored = hurray.sparse_coo(np.array([0.0, 2.0]), np.array([[0, 1], [1, 0]]), (2, 2))
    hurray.save(tmp_path / "a.hrry", {"s": stored, "none": hurray.zeros([2]), "one": np.float32(3)})
    assert call("cat", tmp_path / "a.hrry", "s", "--coords")[1] == "(0, 1)  0.0\n(1, 0)  2.0\n"
    assert call("cat", tmp_path / "a.hrry", "none", "--coords") == (0, "", "")
    assert call("cat", tmp_path / "a.hrry", "one", "--coords")[1] == "()  3.0\n"


def test_coordinates_saved(call: Call, every_layout: Path, tmp_path: Path) -> None:
    assert call("cat", every_layout, "csc", "1:", "--coords", "-o", tmp_path / "c.npz") == (0, "", "")
    with np.load(tmp_path / "c.npz") as found:
        assert found["coords"].tolist() == np.argwhere(SPARSE * (X >= 6)).tolist()
        assert found["values"].tolist() == [10.0, 15.0, 20.0]
    code, _, err = call("cat", every_layout, "csc", "--coords", "-o", tmp_path / "c.npy")
    assert code == 1
    assert err.count("\n") == 1


def test_coordinates_are_elided(call: Call, tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"x": np.ones(1500, np.int8)})
    lines = call("cat", tmp_path / "a.hrry", "x", "--coords")[1].splitlines()
    assert len(lines) == 1001
    assert lines[-1] == "... and 500 more; --full prints all"
    assert len(call("cat", tmp_path / "a.hrry", "x", "--coords", "--full")[1].splitlines()) == 1500


def test_quantized_values_and_codes(call: Call, every_layout: Path) -> None:
    q = hurray.load(every_layout)["q"]
    assert isinstance(q, hurray.Tensor)
    values, codes = q.dequantize().to_numpy(), q.storage().to_numpy()
    assert call("cat", every_layout, "q", "1:3")[1] == np.array2string(values[1:3], separator=", ") + "\n"
    for option in ("--codes", "--storage"):
        assert call("cat", every_layout, "q", "1:3", option)[1] == np.array2string(codes[1:3], separator=", ") + "\n"


def test_quantized_sparse_coordinates(every_layout: Path) -> None:
    q = hurray.load(every_layout)["q_csr"]
    assert isinstance(q, hurray.Tensor)
    coords, values = read_stored(q, Wanted((slice(1, 4), ...)))
    dense = q.dequantize().to_numpy()
    assert coords.tolist() == [[1, 4], [2, 3], [3, 2]]
    assert values.tolist() == dense[tuple(coords.T)].tolist()
    assert read_stored(q, Wanted(codes=True))[1].tolist() == q.storage().nonzeros()[1].tolist()


def test_paged_wants_sequence_lengths(call: Call, every_layout: Path) -> None:
    code, _, err = call("cat", every_layout, "block_paged", "0")
    assert code == 1
    assert "give --sequence-lengths" in err
    code, out, _ = call("cat", every_layout, "block_paged", "2:4, 0", "--sequence-lengths", "3,4")
    assert (code, out) == (0, np.array2string(PAGED[2:4, 0], separator=", ") + "\n")
    code, out, _ = call("cat", every_layout, "block_paged", "0, 0", "--coords", "--sequence-lengths", "3, 4")
    assert (code, out) == (0, "(0, 0, 1)  1.0\n")
    assert call("cat", every_layout, "block_paged", "--sequence-lengths", "9,1")[0] == 1
    for bad in ("x", "3;4", "-1", ""):
        assert call("cat", every_layout, "block_paged", "--sequence-lengths", bad)[0] == 2


def test_members_and_groups(call: Call, every_layout: Path) -> None:
    assert call("cat", every_layout, "parts.1", "0")[1] == "[12., 13., 14., 15., 16., 17.]\n"
    code, _, err = call("cat", every_layout, "group")
    assert code == 1
    assert "group" in err
    for name in ("parts.2", "parts.x", "q.0", "parts.1.0", "."):
        code, _, err = call("cat", every_layout, name)
        assert code == 1
        assert err.startswith("hurray: no tensor ")


def test_bad_slices(call: Call, every_layout: Path) -> None:
    for key in ("4", "0, 0, 0", ":, 6", "-5"):
        for option in ((), ("--coords",)):
            code, _, err = call("cat", every_layout, "csr", key, *option)
            assert code == 1, key
            assert err.count("\n") == 1


def test_find_descends_into_composites_of_any_mapping() -> None:
    from hurray.interop import TensorSet

    inner = hurray.Composite("group", shape=[], dtype=hurray.int8, members=[hurray.ones([3], dtype=hurray.int8)])
    outer = hurray.Composite("group", shape=[], dtype=hurray.int8, members=[hurray.zeros([1]), inner])
    tensors = TensorSet({"a": outer})
    assert find(tensors, "a.1.0").shape == (3,)
    assert read_values(find(tensors, "a.0"), Wanted()).tolist() == [0.0]
    with pytest.raises(hurray.FileError, match=r"'a\.1\.1'"):
        find(tensors, "a.1.1")


def test_every_corpus_tensor_prints(call: Call) -> None:
    from helpers import artefacts, corpus

    for artefact in artefacts("file"):
        path = corpus("peer") / artefact["file"]
        with hurray.open(path) as file:
            for name in file:
                item = file[name]
                readable = isinstance(item, hurray.Composite) or item.layout.kind != "opaque"
                code, _, err = call("cat", path, name, "--coords")
                assert code == 0 or (code == 1 and err.count("\n") == 1 and "Traceback" not in err)
                assert readable or code == 1
