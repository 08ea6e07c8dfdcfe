"""Writing a file in one forward pass.

Each tensor is planned (descriptor bytes, buffers) and then appended: descriptor at a multiple of 8, each buffer at a
multiple of the data alignment.  Only the index entries are kept until the end, so a file may be far larger than memory.

Format: file container.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from hurray.container.header import MIN_ALIGNMENT, UNKNOWN_COUNT, Header, Trailer, check_alignment, crc32c
from hurray.container.index import encode_entry, encode_index, encode_name
from hurray.container.kv import decode_kv, encode_kv
from hurray.errors import FileError, HurrayError, UnsupportedError
from hurray.layouts._base import as_int
from hurray.sources.sink import Output, open_output
from hurray.tensor.build import asarray
from hurray.tensor.composite import Composite
from hurray.tensor.plan import Plan, plan_item
from hurray.tensor.statistics import compute_statistics
from hurray.tensor.tensor import Tensor

__all__ = ["FileArgumentError", "FileArgumentTypeError", "UnsupportedItemError", "Writer"]


class FileArgumentError(FileError, ValueError):
    """A name, a key or a value that a file cannot hold."""


class FileArgumentTypeError(FileError, TypeError):
    """A name, a key or a value of a type that a file cannot hold."""


class UnsupportedItemError(UnsupportedError, TypeError):
    """An object that is no tensor and cannot be made one."""


class Writer:
    """Write a Hurray file one tensor at a time.

    Parameters
    ----------
    target : str, os.PathLike, URL, or binary file object
        A file object stays the caller's and is never closed; it need not seek.
    kv : mapping, optional
        Metadata of the file, see :meth:`set_kv`.
    alignment : int
        Where buffers start: a power of two, 4096 to 2 MiB.
    sort_index : bool
        Write the index in name order instead of write order.
    atomic : bool
        Replace a path only when the file is complete and on the disk; False writes in place.
    statistics : bool
        Compute the statistics of every plain tensor that has none, and write them into its descriptor.
    tensor_count_hint : int, optional
        How many tensors will be written, heads and members included, for readers that cannot seek.

    Raises
    ------
    FileError
        The target cannot be written.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> target = io.BytesIO()
    >>> with hurray.Writer(target, kv={"step": 1}) as w:
    ...     w.add("a", np.arange(3))
    >>> hurray.load(target)["a"]
    hurray.Tensor([0 1 2], dtype=int64)

    Format: file container.
    """

    def __init__(
        self,
        target: Any,
        *,
        kv: Mapping[str, Any] | None = None,
        alignment: int = MIN_ALIGNMENT,
        sort_index: bool = False,
        atomic: bool = True,
        statistics: bool = False,
        tensor_count_hint: int | None = None,
    ) -> None:
        if not check_alignment(alignment):
            raise FileArgumentError(f"alignment must be a power of two in 4096..2097152, but is {alignment}")
        if tensor_count_hint is not None:
            try:
                tensor_count_hint = as_int(tensor_count_hint, "tensor_count_hint", high=UNKNOWN_COUNT - 1)
            except TypeError as error:
                raise FileArgumentTypeError(str(error)) from None
            except ValueError as error:
                raise FileArgumentError(str(error)) from None
        self._kv: dict[str, Any] = {}
        self._state = "open"
        if kv is not None:
            self.set_kv(kv)
        self._alignment = alignment
        self._sort = bool(sort_index)
        self._hint = tensor_count_hint
        self._statistics = statistics
        self._entries: dict[bytes, bytes] = {}
        self._output: Output = open_output(target, atomic=atomic)
        self._header = self._make_header(tensor_count_hint)
        self._guarded(self._output.write, self._header.encode())

    def _make_header(self, hint: int | None) -> Header:
        return Header(has_kv=bool(self._kv), is_sorted=self._sort, alignment=self._alignment, tensor_count_hint=hint)

    def _require_open(self) -> None:
        if self._state != "open":
            raise FileError(f"the writer of {self._output.name!r} is {self._state}", filename=self._output.name)

    def _guarded(self, do: Any, *args: Any) -> None:
        """Run a step that writes; a failure leaves half a tensor behind, so only giving up is possible afterwards."""
        try:
            do(*args)
        except BaseException:
            self.abort()
            self._state = "aborted after an error"
            raise

    def set_kv(self, kv: Mapping[str, Any]) -> None:
        """Add metadata: str, int, float, bool, bytes, or a list of one of them.

        A later value of a key replaces an earlier one.  Everything is written when the writer is closed.

        Raises
        ------
        FileError
            A key or a value cannot be stored; the key is named.  It is a ValueError or TypeError too.
        """
        if self._state != "open":
            raise FileError("the writer is closed: metadata can be added only before")
        try:
            # What is kept is what was checked: values may be lists that the caller goes on changing.
            self._kv.update(decode_kv(encode_kv(kv)))
            encode_kv(self._kv)
        except TypeError as error:
            raise FileArgumentTypeError(str(error)) from None
        except ValueError as error:
            raise FileArgumentError(str(error)) from None

    def add(self, name: str, item: Any) -> None:
        """Append a tensor, a composite, or anything that ``asarray`` takes.

        Parameters
        ----------
        name : str
            Unique in the file; 1 to 65535 bytes in UTF-8.  Members of a composite are named ``<name>.<k>``.

        Raises
        ------
        FileError
            The name is taken or impossible, or writing fails.
        UnsupportedError
            ``item`` is no tensor and cannot be made one.
        """
        self._require_open()
        plans = self._plan(name, item)
        self._guarded(self._append_all, plans)

    def _plan(self, name: str, item: Any) -> dict[bytes, Plan]:
        """Plan everything that belongs to ``item`` and check all names, before a byte is written."""
        plans: dict[bytes, Plan] = {}
        _encode(name)
        try:
            tensor = item if isinstance(item, (Tensor, Composite)) else _as_tensor(item)
            if tensor.descriptor.is_opaque:
                raise UnsupportedError(
                    f"{tensor.layout!r} is unknown and its buffer table cannot be found, so its data cannot be written"
                )
            if self._statistics and isinstance(tensor, Tensor) and tensor.statistics is None:
                tensor = _with_statistics(tensor)
            for member, plan in plan_item(name, tensor):
                encoded = _encode(member)
                if encoded in self._entries or encoded in plans:
                    whose = "" if member == name else f" (a member of composite {name!r})"
                    raise FileArgumentError(f"the name {member!r}{whose} is already in the file")
                plans[encoded] = plan
        except HurrayError as error:
            raise error.at(tensor=name) from None
        return plans

    def _append_all(self, plans: dict[bytes, Plan]) -> None:
        for name, plan in plans.items():
            self._entries[name] = self._append(name, plan)

    def _append(self, name: bytes, plan: Plan) -> bytes:
        output = self._output
        at = output.pad_to(8)
        output.write(plan.descriptor)
        start = end = output.position
        for k, buffer in enumerate(plan.buffers):
            end = output.pad_to(self._alignment)
            if k == 0:
                start = end
            output.write(buffer)
            end += len(buffer)
        # Without a buffer (a composite head) no data padding is written; the offset then means nothing.
        return encode_entry(name, at, len(plan.descriptor), start, end - start)

    def close(self) -> None:
        """Write metadata, index and trailer, and put the file in place; closing again does nothing.

        Raises
        ------
        FileError
            Writing fails; the target is then as it was before.
        """
        if self._state == "closed":
            return
        self._require_open()
        self._guarded(self._finish)
        self._state = "closed"

    def _finish(self) -> None:
        output = self._output
        kv = encode_kv(self._kv) if self._kv else b""
        kv_offset = output.pad_to(8)
        output.write(kv)
        entries = [self._entries[name] for name in sorted(self._entries)] if self._sort else self._entries.values()
        index = encode_index(entries, len(self._entries))
        index_offset = output.pad_to(8)
        output.write(index)
        output.write(Trailer(index_offset, len(index), kv_offset if kv else 0, len(kv), crc32c(index)).encode())
        # What was unknown at the start is filled in where the target can seek; readers do without it.
        header = self._make_header(len(self._entries) if self._hint is None else self._hint)
        if header != self._header:
            output.patch(0, header.encode())
        output.commit()

    def abort(self) -> None:
        """Give up: a path keeps its old file, and nothing new stays behind."""
        if self._state == "open":
            self._state = "aborted"
            self._output.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._state == "open":
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # A writer that was forgotten has no complete file to offer.
        if getattr(self, "_output", None) is not None:
            self.abort()

    def __repr__(self) -> str:
        return f"hurray.Writer({self._output.name!r}, {len(self._entries)} tensors, {self._state})"


def _encode(name: str) -> bytes:
    try:
        return encode_name(name)
    except TypeError as error:
        raise FileArgumentTypeError(str(error)) from None
    except ValueError as error:
        raise FileArgumentError(str(error)) from None


def _with_statistics(tensor: Tensor) -> Tensor:
    try:
        return tensor._replace(statistics=compute_statistics(tensor))
    except UnsupportedError:
        return tensor  # opaque or dynamic: there is nothing that could be computed


def _as_tensor(item: Any) -> Tensor:
    if isinstance(item, Mapping):
        raise UnsupportedItemError(
            f"a {type(item).__name__} is no tensor; names are flat, so save what is in it under names such as 'a.b'"
        )
    try:
        return asarray(item)
    except HurrayError:
        raise
    except (TypeError, ValueError) as error:
        raise UnsupportedItemError(f"{type(item).__name__} is no tensor and cannot be made one: {error}") from None
