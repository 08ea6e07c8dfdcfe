"""How arrays are put on a stream and taken off it, for each contender of the stream task.

Senders run in a process of their own; they get the connection and the arrays.  Receivers get the connection and the
number of arrays.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks.channel import as_file, receive_into, send_view

__all__ = ["RECEIVERS", "SENDERS", "prepare"]

Array = NDArray[Any]
_FRAME = struct.Struct("<QQ")


def prepare(codec: str, arrays: Sequence[Array]) -> Any:
    """Return the arrays in the form that a sender starts from."""
    return [hurray.from_numpy(a) for a in arrays] if codec == "hurray" else arrays


def _send_raw(data: Any, arrays: Sequence[Array]) -> None:
    for array in arrays:
        send_view(data, array.data.cast("B"))


def _send_hurray(data: Any, tensors: Sequence[hurray.Tensor]) -> None:
    with hurray.StreamWriter(data) as writer:
        for tensor in tensors:
            writer.write(tensor)


def _receive_hurray(data: Any, _: int) -> list[Array]:
    with hurray.StreamReader(data) as reader:
        return [item.to_numpy() for item in reader]


def _send_arrow(data: Any, arrays: Sequence[Array]) -> None:
    import pyarrow as pa
    from pyarrow import ipc

    with as_file(data, "wb") as file:
        schema = pa.schema([("values", pa.float32())])
        with ipc.new_stream(file, schema) as writer:
            for array in arrays:
                writer.write_batch(pa.record_batch([pa.array(array.reshape(-1))], schema))


def _receive_arrow(data: Any, _: int) -> list[Array]:
    from pyarrow import ipc

    with as_file(data, "rb") as file, ipc.open_stream(file) as reader:
        return [batch.column(0).to_numpy() for batch in reader]


def _send_pickle(data: Any, arrays: Sequence[Array]) -> None:
    with as_file(data, "wb") as file:
        for array in arrays:
            pickle.dump(array, file, protocol=5)


def _receive_pickle(data: Any, n_arrays: int) -> list[Array]:
    with as_file(data, "rb") as file:
        return [pickle.load(file) for _ in range(n_arrays)]


def _send_out_of_band(data: Any, arrays: Sequence[Array]) -> None:
    for array in arrays:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(array, protocol=5, buffer_callback=buffers.append)
        view = buffers[0].raw()
        send_view(data, memoryview(_FRAME.pack(len(head), len(view)) + head))
        send_view(data, view)


def _receive_out_of_band(data: Any, n_arrays: int) -> list[Array]:
    arrays = []
    frame = bytearray(_FRAME.size)
    for _ in range(n_arrays):
        receive_into(data, memoryview(frame))
        n_head, n_bytes = _FRAME.unpack(frame)
        head, buffer = bytearray(n_head), np.empty(n_bytes, np.uint8)
        receive_into(data, memoryview(head))
        receive_into(data, buffer.data)
        arrays.append(pickle.loads(head, buffers=[buffer]))
    return arrays


SENDERS: dict[str, Callable[[Any, Any], None]] = {
    "raw": _send_raw,
    "hurray": _send_hurray,
    "arrow": _send_arrow,
    "pickle": _send_pickle,
    "pickle out of band": _send_out_of_band,
}
RECEIVERS: dict[str, Callable[[Any, int], list[Array]]] = {
    "hurray": _receive_hurray,
    "arrow": _receive_arrow,
    "pickle": _receive_pickle,
    "pickle out of band": _receive_out_of_band,
}
