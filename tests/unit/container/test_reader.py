"""The lazy mapping over a file, and loading."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from file_cases import build, entry, head
from hurray.errors import BufferError, FileError, InvalidDescriptorError

KV = {"step": 3, "name": "x"}


@pytest.fixture
def tensors() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    dense = rng.random((30, 20)) * (rng.random((30, 20)) < 0.2)
    a, b = hurray.zeros([3], dtype=hurray.int8), hurray.ones([2, 2])
    inner = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[b])
    return {
        "weight": rng.random((7, 5)),
        "fortran": np.asfortranarray(rng.integers(0, 99, (4, 6))),
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 3), np.float32),
        "sparse": hurray.from_numpy(dense).to_layout("csr"),
        "group": hurray.Composite("group", shape=[], dtype=hurray.float32, members=[a, inner]),
    }


@pytest.fixture
def path(tmp_path: Path, tensors: dict[str, Any]) -> Path:
    target = tmp_path / "t.hrry"
    hurray.save(target, tensors, kv=KV)
    return target


def values(item: Any) -> np.ndarray[Any, Any]:
    return item.to_numpy() if isinstance(item, hurray.Tensor) else np.asarray(item)


@pytest.mark.parametrize("strategy", ["auto", "mmap", "read"])
def test_the_mapping(path: Path, tensors: dict[str, Any], strategy: str) -> None:
    with hurray.open(path, strategy=strategy) as file:
        assert isinstance(file, Mapping)
        assert list(file) == list(tensors) == file.names == list(file.keys())
        assert len(file) == 6
        assert file.all_names == [*tensors, "group.0", "group.1", "group.1.0"]
        for name in list(tensors)[:5]:
            assert np.array_equal(values(file[name]), values(tensors[name]))
        assert "weight" in file
        assert "group.1.0" in file
        assert "nope" not in file
        assert 3 not in file  # type: ignore[comparison-overlap]
        assert file.get("nope") is None
        assert file.kv == KV
        assert [e.type for e in file.kv_entries()] == ["int64", "string"]
        assert dict(file.items()).keys() == tensors.keys()
        assert len(list(file.values())) == 6
        assert file.descriptor("sparse").layout == tensors["sparse"].layout
        assert file.descriptor("group").is_head


def test_members_of_composites(path: Path) -> None:
    with hurray.open(path) as file:
        group = file["group"]
        assert isinstance(group, hurray.Composite)
        assert isinstance(group.members[1], hurray.Composite)
        assert np.array_equal(values(file["group.0"]), np.zeros(3, np.int8))
        assert isinstance(file["group.1"], hurray.Composite)
        assert np.array_equal(values(file["group.1.0"]), np.ones((2, 2)))
    some = hurray.load(path, names=["group.1.0", "weight"])
    assert list(some) == ["group.1.0", "weight"]


def test_the_listing(path: Path) -> None:
    with hurray.open(path) as file:
        listing = {row.name: row for row in file.info()}
    assert list(listing) == ["weight", "fortran", "scalar", "empty", "sparse", "group"]
    weight = listing["weight"]
    assert weight[1:] == (hurray.float64, (7, 5), "row_major", 280, None, ())
    assert listing["fortran"].layout == "col_major"
    assert listing["group"].members == ("group.0", "group.1", "group.1.0")
    assert listing["group"].n_bytes == 3 + 32


def test_a_missing_name(path: Path) -> None:
    with hurray.open(path) as file:
        for name in ("wieght", "nope", "", "\ud800", "x" * 100_000):
            with pytest.raises(KeyError) as caught:
                file[name]
            assert isinstance(caught.value, FileError)
        with pytest.raises(KeyError, match="did you mean 'weight'"):
            file["wieght"]
        with pytest.raises(KeyError, match="str"):
            file[3]  # type: ignore[index]
        with pytest.raises(FileError, match="nope"):
            file.descriptor("nope")
    with pytest.raises(FileError, match="nope"):
        hurray.load(path, names=["weight", "nope"])
    with pytest.raises(TypeError, match="list of names"):
        hurray.load(path, names="weight")
    assert hurray.load(path, names=[]) == {}


def test_mapped_views_are_zero_copy_and_read_only(path: Path) -> None:
    with hurray.open(path) as file:
        first, second = file["weight"].to_numpy(), file["weight"].to_numpy()
        assert first.ctypes.data == second.ctypes.data
        assert first.ctypes.data % 4096 == 0
        assert not first.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            first[0] = 1
    with hurray.open(path, strategy="read") as file:
        assert not file["weight"].to_numpy().flags.writeable
        assert file["weight"].to_numpy().ctypes.data % 64 == 0


def test_tensors_outlive_the_file(path: Path, tensors: dict[str, Any]) -> None:
    for strategy in ("mmap", "read"):
        file = hurray.open(path, strategy=strategy)
        tensor = file["weight"]
        file.close()
        file.close()
        assert file.closed
        assert "closed" in repr(file)
        with pytest.raises(FileError, match="closed"):
            file["fortran"]
        assert np.array_equal(tensor.to_numpy(), tensors["weight"])
    path.unlink()
    assert np.array_equal(tensor.to_numpy(), tensors["weight"])


def test_pickling(path: Path, tensors: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with hurray.open(path.name, strategy="read") as file:
        data = pickle.dumps(file)
    monkeypatch.chdir("/")
    with pickle.loads(data) as again:
        assert np.array_equal(again["weight"].to_numpy(), tensors["weight"])
    for target in (io.BytesIO(path.read_bytes()), path.read_bytes()):
        with hurray.open(target) as file, pytest.raises(TypeError, match="pickled"):
            pickle.dumps(file)


def test_every_kind_of_target(path: Path, tensors: dict[str, Any]) -> None:
    raw = path.read_bytes()
    with path.open("rb") as opened:
        for target in (path, str(path), raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, np.uint8),
                       io.BytesIO(raw), opened):  # fmt: skip
            assert np.array_equal(hurray.load(target)["weight"].to_numpy(), tensors["weight"])
            assert hurray.load_kv(target) == KV
            with hurray.open(target) as file:
                assert np.array_equal(file["fortran"].to_numpy(), tensors["fortran"])
            assert hurray.verify(target).ok
        assert not opened.closed
    with path.open(encoding="latin-1") as text, pytest.raises(TypeError, match="binary"):
        hurray.load(text)
    with pytest.raises(FileNotFoundError, match="absent.hrry"):
        hurray.load(path.parent / "absent.hrry")
    with pytest.raises(FileNotFoundError):
        hurray.verify(path.parent / "absent.hrry")
    with pytest.raises(ValueError, match="reading only"):
        hurray.open(path, "w")


def test_a_file_replaced_while_open_keeps_its_old_content(path: Path, tensors: dict[str, Any]) -> None:
    with hurray.open(path) as file:
        old = file["weight"]
        hurray.save(path, {"weight": np.zeros(3)})
        assert np.array_equal(old.to_numpy(), tensors["weight"])
        assert np.array_equal(file["fortran"].to_numpy(), tensors["fortran"])
    assert list(hurray.load(path)) == ["weight"]


def test_saving_a_file_over_itself(path: Path, tensors: dict[str, Any]) -> None:
    with hurray.open(path) as file:
        hurray.save(path, file, kv=file.kv)
    assert list(hurray.load(path)) == list(tensors)
    assert np.array_equal(hurray.load(path)["weight"].to_numpy(), tensors["weight"])
    assert hurray.load_kv(path) == KV
    assert os.listdir(path.parent) == [path.name]


def test_a_strict_load_checks_index_buffers(tensors: dict[str, Any]) -> None:
    sparse = entry("s", tensors["sparse"])
    pointers = np.frombuffer(sparse.buffers[2], "<u8").copy()
    pointers[3] = 2**40
    sparse.buffers[2] = pointers.tobytes()
    data = build([sparse, entry("a", np.arange(3.0))])
    with pytest.raises(InvalidDescriptorError, match="'s'"):
        hurray.load(data)
    with pytest.raises(InvalidDescriptorError, match="'s'"):
        hurray.load(data, names=["s"])
    assert list(hurray.load(data, names=["a"])) == ["a"]
    assert list(hurray.load(data, permissive=True)) == ["s", "a"]
    inside = build([head("h", "group", (), 1), sparse])
    with pytest.raises(InvalidDescriptorError, match="'h'"):
        hurray.load(inside)


def test_unknown_layouts_need_a_permissive_reader() -> None:
    known = entry("a", np.arange(4.0))
    descriptor = bytearray(known.descriptor)
    descriptor[15] = 0x7E
    known.descriptor = bytes(descriptor)
    data = build([known])
    with pytest.raises(InvalidDescriptorError, match="layout tag"):
        hurray.load(data)
    tensor = hurray.load(data, permissive=True)["a"]
    assert tensor.shape == (4,)
    assert tensor.descriptor.encode() == bytes(descriptor)
    target = io.BytesIO()
    hurray.save(target, {"a": tensor})
    again = hurray.load(target, permissive=True)["a"]
    assert again.descriptor.encode() == bytes(descriptor)
    assert isinstance(again, hurray.Tensor)
    assert np.array_equal(again.buffer(0).to_numpy().view(np.float64), np.arange(4.0))


def test_equal_descriptors_are_decoded_once(tmp_path: Path) -> None:
    target = tmp_path / "many.hrry"
    hurray.save(target, {f"t{k}": np.full(5, k) for k in range(50)})
    with hurray.open(target) as file:
        assert len({id(t.descriptor) for t in file.values()}) == 1
        assert [int(t.to_numpy()[0]) for t in file.values()] == list(range(50))


def test_sizes_are_checked_for_every_descriptor() -> None:
    short = hurray.asarray(np.arange(4.0))
    lying = entry("b", short)
    at = lying.descriptor.index((32).to_bytes(8, "little"))
    lying.descriptor = lying.descriptor[:at] + (24).to_bytes(8, "little") + lying.descriptor[at + 8 :]
    lying.buffers[0] = lying.buffers[0][:24]
    data = build([entry("a", short), lying, entry("c", short)])
    for use in (hurray.load, lambda d: list(hurray.open(d).items()), lambda d: hurray.open(d)["b"]):
        with pytest.raises(BufferError, match="32"):
            use(data)


def test_views_of_all_tensors(path: Path, tensors: dict[str, Any]) -> None:
    with hurray.open(path) as file:
        items, values_view = file.items(), file.values()
        assert len(items) == len(values_view) == len(file)
        assert [name for name, _ in items] == list(file)
        assert [name for name, _ in items] == [name for name, _ in items]
        for (name, item), other in zip(items, values_view, strict=True):
            assert type(item) is type(other) is type(file[name])
            assert item.descriptor == other.descriptor == file[name].descriptor
            if isinstance(item, hurray.Tensor):
                assert np.array_equal(values(item), values(file[name]))
                assert np.array_equal(values(item), values(other))
    with pytest.raises(FileError, match="closed"):
        next(iter(items))
    for use in (file.items, file.values):
        with pytest.raises(FileError, match="closed"):
            use()


def test_more_kinds_of_descriptors_than_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "many.hrry"
    arrays = {f"t{k}": np.full((k % 1100,), k) for k in range(2300)}
    hurray.save(target, arrays)
    loaded = hurray.load(target)
    assert all(np.array_equal(loaded[name].to_numpy(), a) for name, a in arrays.items())


def test_opening_touches_the_index_only(tmp_path: Path) -> None:
    target = tmp_path / "t.hrry"
    hurray.save(target, {"a": np.arange(4.0), "b": np.arange(4.0)})
    damaged = bytearray(target.read_bytes())
    damaged[64:68] = b"XXXX"
    target.write_bytes(damaged)
    with hurray.open(target) as file:
        assert file.all_names == ["a", "b"]
        assert np.array_equal(file["b"].to_numpy(), np.arange(4.0))
        with pytest.raises(InvalidDescriptorError, match="'a'"):
            file["a"]
    with pytest.raises(InvalidDescriptorError, match="'a'"):
        hurray.load(target)


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="resident memory cannot be read here")
def test_a_gigabyte_is_listed_and_loaded_without_being_read(tmp_path: Path) -> None:
    target = tmp_path / "big.hrry"

    class Holes(io.RawIOBase):
        """A sink that leaves a hole in the file where a big buffer would be."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def write(self, data: Any) -> int:
            n_bytes = memoryview(data).nbytes
            if n_bytes > 1 << 24:
                self._inner.seek(n_bytes, 1)
                return n_bytes
            return int(self._inner.write(data))

    with target.open("wb", buffering=0) as inner:
        hurray.save(Holes(inner), {"big": np.zeros(1 << 30, np.uint8), "small": np.arange(3)})
    hurray.load(build())
    before = resident_kib()
    loaded = hurray.load(target)
    with hurray.open(target) as file:
        assert [row.n_bytes for row in file.info()] == [1 << 30, 24]
    assert loaded["big"].shape == (1 << 30,)
    assert loaded["small"].to_numpy()[2] == 2
    assert resident_kib() - before < 5 * 1024


def test_repr(path: Path) -> None:
    with hurray.open(path) as file:
        assert repr(file) == f"hurray.File({str(path)!r}, 9 tensors)"
        assert file.name == str(path)
        assert file.header.alignment == 4096
    assert repr(hurray.open(build())) == "hurray.File('<memory>', 1 tensor)"
