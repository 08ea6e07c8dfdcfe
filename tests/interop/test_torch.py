"""PyTorch both ways: every dtype, every kind of strides, sparse layouts, and torch's own DLPack consumer."""

from __future__ import annotations

import builtins
import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:ComplexHalf")

NAMES = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float64": "float64",
    "int8": "int8",
    "uint8": "uint8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "bool": "bool",
    "complex64": "complex64",
    "complex128": "complex128",
    "float8_e4m3fn": "float8_e4m3",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0fnu": "float8_e8m0",
}
AVAILABLE = [name for name in NAMES if hasattr(torch, name)]


def sample(name: str) -> Any:
    """Return a 4 x 6 tensor of arbitrary bits (legal ones for bool and float8_e8m0)."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.arange(24).reshape(4, 6) % 3 == 0
    width = torch.empty((), dtype=dtype).element_size()
    raw = np.random.default_rng(7).integers(1, 255, 24 * width, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(4, 6)


def raw(t: Any) -> bytes:
    """Return the bits of a tensor's elements in logical order."""
    return bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


VIEWS = {
    "whole": lambda t: t,
    "transposed": lambda t: t.T,
    "columns": lambda t: t[:, ::2],
    "column": lambda t: t[:, 1:2],
    "expanded": lambda t: t[:1].expand(3, -1),
    "scalar": lambda t: t[1, 2],
    "empty": lambda t: t[:0],
    "offset": lambda t: t[1:, 3:],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", AVAILABLE)
def test_every_dtype_and_view_both_ways(name: str, view: str) -> None:
    t = VIEWS[view](sample(name))
    tensor = hurray.from_torch(t)
    assert tensor.dtype.name == NAMES[name]
    assert tensor.shape == tuple(t.shape)
    back = tensor.to_torch()
    assert back.dtype == t.dtype
    assert back.shape == t.shape
    assert raw(back) == raw(t)
    if t.numel() and name != "bool":
        assert back.data_ptr() == t.data_ptr()
        assert [s for s, n in zip(back.stride(), t.shape, strict=True) if n > 1] == [
            s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1
        ]
    copied = hurray.from_torch(t, copy=True)
    assert copied.layout.name == "row_major"
    assert raw(copied.to_torch()) == raw(t)
    assert raw(hurray.to_torch(tensor, copy=True)) == raw(t)


def test_values_are_those_of_numpy() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert hurray.to_torch(hurray.from_numpy(array)).tolist() == array.tolist()
    assert hurray.from_torch(torch.tensor([[1, 2], [3, 4]])).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_copy_arguments() -> None:
    t = torch.arange(4.0)
    shared, fresh = hurray.from_torch(t, copy=False), hurray.from_torch(t, copy=True)
    t[0] = 9
    assert shared[0] == 9
    assert fresh[0] == 0
    mine = hurray.to_torch(fresh, copy=True)
    mine[0] = 5
    assert fresh[0] == 0
    for tensor in (hurray.from_torch(t > 1), hurray.from_numpy(np.arange(4.0)[::-1])):
        with pytest.raises(hurray.CopyRequiredError):
            hurray.to_torch(tensor, copy=False)
    with pytest.raises(hurray.CopyRequiredError):
        hurray.from_torch(t > 1, copy=False)


def test_backwards_and_unaligned_memory_is_put_in_order() -> None:
    backwards = np.arange(12.0).reshape(3, 4)[::-1, ::-2]
    assert hurray.from_numpy(backwards).to_torch().tolist() == backwards.tolist()
    unaligned = np.frombuffer(b"x" + np.arange(3.0).tobytes(), np.uint8)[1:].view(np.float64)
    assert hurray.from_numpy(unaligned).to_torch().tolist() == [0, 1, 2]


def test_other_dense_layouts_are_put_in_order() -> None:
    array = np.arange(64.0).reshape(8, 8)
    for layout, options in (("tiled", {"tile_shape": [4, 4]}), ("morton", {}), ("hilbert", {})):
        tensor = hurray.from_numpy(array).to_layout(layout, **options)
        assert tensor.to_torch().tolist() == array.tolist()
        with pytest.raises(hurray.CopyRequiredError, match=layout):
            hurray.to_torch(tensor, copy=False)


def test_gradients_and_lazy_views() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    tensor = hurray.from_torch(parameter)
    assert tensor.to_numpy().tolist() == [1, 1, 1]
    assert tensor.to_torch().data_ptr() == parameter.data_ptr()
    turned = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert hurray.from_torch(turned).to_numpy().tolist() == [1 - 2j, 3 + 4j]
    assert hurray.from_torch(turned.imag).to_numpy().tolist() == [-2, 4]
    for lazy in (turned, turned.imag):
        with pytest.raises(hurray.CopyRequiredError):
            hurray.from_torch(lazy, copy=False)


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_layouts_both_ways(layout: str, name: str) -> None:
    dense = torch.tensor([[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]).to(getattr(torch, name))
    sparse = dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")()
    tensor = hurray.from_torch(sparse)
    assert tensor.layout.name == layout
    assert tensor.nnz == 3
    assert hurray.asarray(tensor.to_numpy().astype(np.float64)).to_numpy().tolist() == dense.double().tolist()
    back = tensor.to_torch()
    assert back.layout == sparse.layout
    assert back.dtype == sparse.dtype
    assert raw(back.to_dense()) == raw(dense)


def test_sparse_details() -> None:
    doubled = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [2, 2, 0]]), torch.tensor([1.0, 2.0, 4.0]), (2, 3))
    tensor = hurray.from_torch(doubled)
    assert tensor.nnz == 2
    assert tensor.to_numpy().tolist() == [[0, 0, 3], [4, 0, 0]]
    assert tensor.to_torch().is_coalesced()
    unsorted = hurray.sparse_coo(np.ones(2), np.array([[1, 0], [0, 1]]), (2, 2))
    assert unsorted.to_torch().to_dense().tolist() == [[0, 1], [1, 0]]
    narrow = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32),
        torch.tensor([1, 0], dtype=torch.int32),
        torch.tensor([5.0, 6.0]),
        (2, 2),
    )
    assert hurray.from_torch(narrow).to_numpy().tolist() == [[0, 5], [6, 0]]
    deep = torch.zeros(2, 2, 2).to_sparse()
    assert hurray.from_torch(deep).shape == (2, 2, 2)
    csr = torch.eye(3).to_sparse_csr()
    assert hurray.from_torch(csr, copy=False).to_torch().values().data_ptr() == csr.values().data_ptr()


def test_bad_sparse_indices_are_found() -> None:
    wrong = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2]), torch.tensor([1, 7]), torch.tensor([5.0, 6.0]), (2, 2), check_invariants=False
    )
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.from_torch(wrong)


def test_refusals_name_the_reason() -> None:
    quantized = hurray.Tensor(bytes(4), hurray.int8, [4], quantization=hurray.PerTensorAffine(0.5, 0))
    csf = hurray.sparse_coo(np.ones(1), np.zeros((1, 3), np.uint64), (2, 2, 2)).to_layout("csf")
    for tensor, words in (
        (quantized, r"dequantize\(\)"),
        (csf, "csf"),
        (hurray.Tensor(bytes(4), hurray.dtype.int4, [8]), "int4"),
        (hurray.Tensor(bytes(16), hurray.dtype.float128, [1]), "float128"),
        (hurray.Tensor(bytes(4), hurray.int8, [4], hurray.Device("cuda")), "cuda"),
    ):
        with pytest.raises(hurray.UnsupportedError, match=words):
            tensor.to_torch()
    for t, words in (
        (torch.empty(2, device="meta"), "meta"),
        (torch.zeros(4, 4).to_sparse_bsr((2, 2)), "bsr"),
        (torch.zeros(2, 3, 3).to_sparse(2), "dense"),
        (torch.zeros(2, 3, 3).to_sparse_csr(), "batch"),
        (torch.zeros(2, dtype=torch.complex32), "complex32"),
    ):
        with pytest.raises(hurray.UnsupportedError, match=words):
            hurray.from_torch(t)
    for bad in (np.ones(2), [1, 2], hurray.zeros([1])):
        with pytest.raises(TypeError):
            hurray.from_torch(bad)
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.Tensor(b"\x00\x7f", hurray.dtype.float8_e8m0, [2]).to_torch()


# torch's own consumer and producer


def test_torch_takes_our_capsules() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tensor = hurray.from_numpy(array)
    taken = torch.from_dlpack(tensor)
    assert taken.tolist() == array.tolist()
    assert taken.data_ptr() == array.ctypes.data
    assert torch.from_dlpack(hurray.from_numpy(array[::-1])).tolist() == array[::-1].tolist()
    assert torch.utils.dlpack.from_dlpack(tensor.__dlpack__()).tolist() == array.tolist()
    assert torch.from_dlpack(hurray.zeros([0, 3])).shape == (0, 3)
    assert torch.from_dlpack(hurray.asarray(torch.ones(2, dtype=torch.bfloat16))).dtype == torch.bfloat16


def test_we_take_torchs_capsules() -> None:
    t = torch.arange(6.0).reshape(2, 3).T
    tensor = hurray.from_dlpack(t)
    assert tensor.to_numpy().tolist() == t.tolist()
    assert tensor.to_numpy().ctypes.data == t.data_ptr()
    assert hurray.from_dlpack(torch.utils.dlpack.to_dlpack(t)).to_numpy().tolist() == t.tolist()
    assert hurray.from_dlpack(torch.zeros(0, 2)).shape == (0, 2)
    with pytest.raises(builtins.BufferError, match="gradient"):
        hurray.from_dlpack(torch.ones(2, requires_grad=True))


def test_memory_goes_when_torch_lets_go_and_errors_survive_it() -> None:
    array = np.arange(6.0)
    alive = weakref.ref(array)
    taken = hurray.from_numpy(array).to_torch()
    del array
    gc.collect()
    assert taken[3] == 3
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.add(hurray.arange(3).to_torch(), "x")
    del taken
    assert alive() is None


def test_torch_tensors_left_at_exit_do_no_harm() -> None:
    code = (
        "import hurray, torch, numpy as np\n"
        "t = hurray.from_numpy(np.arange(1000.))\n"
        "left = t.to_torch(); torch.left = torch.from_dlpack(t); mine = hurray.from_torch(torch.ones(3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=helpers.our_env(), timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
