"""What errors say about files of other kinds."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import hurray
from hurray.sources.kinds import kind_hint


def _safetensors() -> bytes:
    header = json.dumps({"x": {"dtype": "F32", "shape": [40], "data_offsets": [0, 160]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(160)


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(40))
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(40))
    return file.getvalue()


def _stream() -> bytes:
    with hurray.StreamWriter() as out:
        out.write(np.zeros(40))
    return out.getvalue()


CASES = {
    "safetensors": (_safetensors(), "from_safetensors"),
    "npz": (_npz(), "from_npz"),
    "npy": (_npy(), "from_npy"),
    "stream": (_stream(), "StreamReader"),
    "gguf": (b"GGUF" + bytes(200), "from_gguf"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(200), "h5py"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n", "git lfs pull"),
    "page": (b"\n <!DOCTYPE html><html><body>404</body></html>", "web page"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "error message"),
    "gzip": (b"\x1f\x8b" + bytes(200), "decompress"),
    "zeros": (bytes(500), "zeros only"),
}


@pytest.mark.parametrize("case", CASES)
def test_other_files_are_recognized(case: str, tmp_path: Path) -> None:
    content, hint = CASES[case]
    path = tmp_path / "model.hrry"
    path.write_bytes(content)
    for read in (hurray.open, hurray.load, hurray.load_kv):
        with pytest.raises(hurray.FileError, match=hint) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
    report = hurray.verify(path)
    assert not report.ok
    assert hint in report.problems[0].message


def test_unknown_content_is_not_guessed() -> None:
    for content in (b"", b"\x01", b"abcdefgh", b"HRRYFILF" + bytes(90), bytes(range(64))):
        assert "looks like" not in kind_hint(content)
