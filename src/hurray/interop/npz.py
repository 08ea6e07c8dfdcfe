"""NumPy's npy and npz files in and out.

Arrays that are stored plainly, an npy file or an uncompressed member of an npz, are shared with the mapped file.
Compressed members are inflated when they are asked for, in steps, so that a lie about a size costs nothing.  Pickled
objects are never loaded.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import IO, Any, BinaryIO, NamedTuple, Self, cast

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import FileError, HurrayError, UnsupportedError
from hurray.interop._base import TensorSet
from hurray.interop._dense import DenseForm, dense_form, row_major_bytes
from hurray.interop._output import output
from hurray.kernels import bits as bit_kernels
from hurray.layouts import ColMajorLayout, Layout, RowMajorLayout
from hurray.limits import DEFAULT_LIMITS, MAX_RANK
from hurray.sources import Source, open_source
from hurray.sources.as_file import SourceFile
from hurray.tensor.relayout import new_descriptor
from hurray.tensor.tensor import Tensor

__all__ = ["NpzFile", "from_npy", "from_npz", "to_npy", "to_npz"]

_MAX_HEADER_BYTES = 10_000
_MAX_NAME_BYTES = 65_000
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_BLOCK = 1 << 20
#: what zipfile raises for archives that are damaged, encrypted or of unknown kinds
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
)


class NpyHeader(NamedTuple):
    """The header of an npy file: NumPy dtype, shape, column-major or not, and its length in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    n_bytes: int

    @property
    def data_bytes(self) -> int:
        """Bytes of the elements."""
        count = 1
        for n in self.shape:
            count *= n
        return count * self.dtype.itemsize


def read_npy_header(file: IO[bytes], what: str) -> NpyHeader:
    """Read the header of an npy file from its start.

    Raises
    ------
    FileError
        It is no npy file, or its header is damaged.
    UnsupportedError
        It holds Python objects.
    """
    try:
        version = npy_format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise FileError(f"{what}: npy version {version[0]}.{version[1]} is not known")
        # NumPy's own public readers know 1.0 and 2.0; 3.0 differs from 2.0 only in UTF-8 names of fields.
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(file, max_header_size=_MAX_HEADER_BYTES)
    except FileError:
        raise
    except Exception as error:
        # NumPy evaluates the header as a Python literal: what it raises for damage is not bounded by its documentation.
        raise FileError(f"{what} is not a valid npy file: {error}") from None
    if dtype.hasobject:
        raise UnsupportedError(f"{what} holds Python objects, which are never loaded")
    if len(shape) > MAX_RANK or any(type(n) is not int or not 0 <= n < 2**63 for n in shape):
        raise FileError(f"{what}: shape {str(shape)[:200]} is not the shape of an array")
    return NpyHeader(dtype, shape, bool(fortran), file.tell())


def _tensor_over(data: NDArray[np.uint8], header: NpyHeader, what: str) -> Tensor:
    """Return the tensor over an array's bytes, sharing them where the types allow it."""
    try:
        dtype = Dtype.from_numpy(header.dtype)
    except UnsupportedError as error:
        raise UnsupportedError(f"{what}: {error}") from None
    layout: Layout = ColMajorLayout() if header.fortran and len(header.shape) > 1 else RowMajorLayout()
    if dtype.name == "bool":
        data = bit_kernels.pack(data != 0, 1)
    elif header.dtype.byteorder == ">":
        data = data.view(header.dtype).byteswap().view(np.uint8)
    descriptor = new_descriptor(dtype, header.shape, len(data)).with_changes(layout=layout)
    return Tensor._from_parts(descriptor, (data,))


def from_npy(path: str | os.PathLike[str] | bytes | BinaryIO) -> Tensor:
    """Open an npy file as a tensor that shares the mapped file.

    Big-endian and boolean arrays are converted, which copies them.

    Raises
    ------
    FileError
        The file is missing, damaged or cut short.
    UnsupportedError
        The format has no such element type (objects, strings, records, dates).
    """
    source = open_source(path)
    try:
        return _from_source(source, 0, source.size, source.name)
    finally:
        source.close()


def _from_source(source: Source, start: int, n_bytes: int, what: str) -> Tensor:
    prefix = source.view(start, min(n_bytes, _MAX_HEADER_BYTES + 16))
    header = read_npy_header(io.BytesIO(prefix.tobytes()), what)
    if header.data_bytes > n_bytes - header.n_bytes:
        raise FileError(
            f"{what}: {header.dtype} of shape {header.shape} takes {header.data_bytes} bytes, "
            f"but {n_bytes - header.n_bytes} are there"
        )
    return _tensor_over(source.view(start + header.n_bytes, header.data_bytes), header, what)


def to_npy(
    path: str | os.PathLike[str] | BinaryIO, tensor: Any, *, dequantize: bool = False, densify: bool = False
) -> None:
    """Write a tensor to an npy file, in row-major order.

    Parameters
    ----------
    path : path or binary file object
        Where to write.
    tensor : Tensor, Composite or array
        What to write.
    dequantize, densify : bool
        Write a quantized tensor as float32, and a sparse, block-paged or composite one as a dense array, instead of
        refusing it.

    Raises
    ------
    UnsupportedError
        NumPy's files cannot express it: bfloat16 and the other types that NumPy lacks would lose their names.
    FileError
        Writing failed.
    """
    form = _npy_form("array", tensor, dequantize=dequantize, densify=densify)
    with output(path) as out:
        _write_npy(out, form)


def _npy_form(name: str, item: Any, *, dequantize: bool, densify: bool) -> DenseForm:
    form = dense_form(name, item, "npy", dequantize=dequantize, densify=densify)
    if form.dtype.name != "bool" and form.dtype.storage != form.dtype.numpy:
        raise UnsupportedError(f"tensor {name!r}: an npy file has no name for elements of {form.dtype}")
    return form


def _write_npy(out: IO[bytes], form: DenseForm) -> None:
    t = form.tensor()
    is_bool = form.dtype.name == "bool"
    described = {
        "descr": npy_format.dtype_to_descr(np.dtype(np.bool_) if is_bool else form.dtype.storage),
        "fortran_order": False,
        "shape": form.shape,
    }
    npy_format.write_array_header_1_0(cast(Any, out), described)
    data = row_major_bytes(t)
    n_elems = t.size or 0
    if not is_bool:
        for at in range(0, len(data), _BLOCK):
            out.write(data[at : at + _BLOCK].data)
        return
    for at in range(0, n_elems, _BLOCK):
        out.write(bit_kernels.unpack(data, 1, min(_BLOCK, n_elems - at), at).data)


class NpzFile(Mapping[str, Tensor]):
    """An npz file as a lazy read-only mapping from names to tensors.

    Tensors stay valid after :meth:`close`.
    """

    def __init__(self, source: Source, archive: zipfile.ZipFile) -> None:
        self._source = source
        self._archive = archive
        self._members = {
            info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")
        }
        self.kv: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order of the archive."""
        return list(self._members)

    def __getitem__(self, name: str) -> Tensor:
        info = self._members[name]
        what = f"{self._source.name}: array {name!r}"
        try:
            if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                return _from_source(self._source, self._data_start(info), info.file_size, what)
            with self._archive.open(info) as file:
                return _inflate(file, what)
        except HurrayError:
            raise
        except _ZIP_ERRORS as error:
            raise FileError(f"{what} is damaged: {error}") from None

    def _data_start(self, info: zipfile.ZipInfo) -> int:
        head = self._source.view(info.header_offset, _LOCAL_HEADER.size).tobytes()
        fields = _LOCAL_HEADER.unpack(head)
        if fields[0] != b"PK\x03\x04":
            raise FileError(f"{self._source.name}: no member of the archive starts at {info.header_offset}")
        return int(info.header_offset + _LOCAL_HEADER.size + fields[-2] + fields[-1])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def close(self) -> None:
        """Close the archive; tensors that were taken stay valid."""
        self._archive.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<NpzFile of {len(self)} arrays>"


def _inflate(file: IO[bytes], what: str) -> Tensor:
    # A compressed file cannot tell its place, so the header is counted as it is read.
    counted = _Counted(file)
    header = read_npy_header(cast(IO[bytes], counted), what)
    wanted = header.data_bytes
    data = bytearray()
    while len(data) < wanted:
        piece = file.read(min(DEFAULT_LIMITS.step_bytes, wanted - len(data)))
        if not piece:
            raise FileError(
                f"{what}: {header.dtype} of shape {header.shape} takes {wanted} bytes, only {len(data)} are there"
            )
        data += piece
    inflated = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    inflated.setflags(write=False)
    return _tensor_over(inflated, header, what)


class _Counted:
    """A file that is read from its start and knows how far it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0

    def read(self, n_bytes: int) -> bytes:
        piece = self._file.read(n_bytes)
        self._at += len(piece)
        return piece

    def tell(self) -> int:
        return self._at


def from_npz(path: str | os.PathLike[str] | bytes | BinaryIO) -> NpzFile:
    """Open an npz file as a lazy mapping from names to tensors.

    Raises
    ------
    FileError
        The file is missing, or no zip archive.
    """
    source = open_source(path)
    try:
        archive = zipfile.ZipFile(cast(Any, io.BufferedReader(SourceFile(source))))
        found = NpzFile(source, archive)
    except _ZIP_ERRORS as error:
        source.close()
        raise FileError(f"{source.name} is not an npz file: {error}", filename=source.name) from None
    if len(found._members) != sum(info.filename.endswith(".npy") for info in archive.infolist()):
        found.close()
        raise FileError(f"{source.name}: two arrays have the same name", filename=source.name)
    return found


def to_npz(
    path: str | os.PathLike[str] | BinaryIO,
    tensors: Mapping[str, Any],
    *,
    kv: Mapping[str, Any] | None = None,
    compressed: bool = False,
    dequantize: bool = False,
    densify: bool = False,
) -> None:
    """Write tensors to an npz file, each in row-major order.

    Parameters
    ----------
    path : path or binary file object
        Where to write.
    tensors : mapping of str to Tensor, Composite or array
        What to write; a lazy mapping is read one tensor at a time.
    kv : mapping, optional
        Must be empty: an npz file has no place for metadata.
    compressed : bool
        Deflate the arrays.
    dequantize, densify : bool
        As in :func:`to_npy`.

    Raises
    ------
    UnsupportedError
        NumPy's files cannot express a tensor, or there is metadata.
    FileError
        Writing failed; an existing file is left as it was.
    """
    if kv:
        raise UnsupportedError(
            f"an npz file has no place for metadata ({', '.join(map(str, kv))}); leave it out with kv={{}}"
        )
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with output(path) as out, zipfile.ZipFile(out, "w", method) as archive:
        for name in tensors:
            form = _npy_form(name, tensors[name], dequantize=dequantize, densify=densify)
            if "\0" in name or len(name.encode("utf-8")) > _MAX_NAME_BYTES:
                raise UnsupportedError(f"tensor {name[:100]!r}: a zip archive cannot store that name")
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = method
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                _write_npy(member, form)


def read_npy_set(path: str | os.PathLike[str] | bytes | BinaryIO) -> TensorSet:
    """Open an npy file as a set of one tensor, which is called as the file is, without its ending."""
    name = os.path.basename(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else ""
    return TensorSet({name.removesuffix(".npy") or "array": from_npy(path)})


def write_npy_set(
    path: str | os.PathLike[str] | BinaryIO,
    tensors: Mapping[str, Any],
    *,
    kv: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Write a set of one tensor to an npy file.

    Raises
    ------
    UnsupportedError
        There is not exactly one tensor, or there is metadata.
    """
    if kv:
        raise UnsupportedError(
            f"an npy file has no place for metadata ({', '.join(map(str, kv))}); leave it out with kv={{}}"
        )
    if len(tensors) != 1:
        raise UnsupportedError(f"an npy file holds one array, not {len(tensors)}; choose one by its name, or write npz")
    for name in tensors:
        to_npy(path, tensors[name], **options)
