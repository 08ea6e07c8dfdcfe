"""Runs snippets for a benchmark in an interpreter of its own: one JSON object a line in, one a line out.

This file imports the standard library only and nothing of this project, so that any interpreter can run it.

Requests: ``{"op": "exec", "code"}``; ``{"op": "eval", "code"}``, whose value comes back; and ``{"op": "time", "code",
"loops", "before", "after"}``, whose value is seconds a loop. Replies: ``{"value"}`` or ``{"error"}``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import timeit
import traceback


def main() -> None:
    """Answer requests until standard input ends."""
    # What a snippet prints must not get between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    names: dict[str, object] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"value": answer(request, names)}
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1].lineno
            reply = {"error": f"{type(error).__name__}: {error} (line {where})"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def answer(request: dict[str, object], names: dict[str, object]) -> object:
    """Carry out one request."""
    code = str(request["code"])
    if request["op"] == "exec":
        exec(compile(code, "<snippet>", "exec"), names)
        return None
    if request["op"] == "eval":
        return eval(compile(code, "<snippet>", "eval"), names)
    exec(compile(str(request["before"]), "<before>", "exec"), names)
    loops = int(str(request["loops"]))
    gc.collect()
    # timeit makes a function of the snippet, so that its names are fast; it would turn garbage collection off.
    seconds = timeit.Timer(code, "import gc; gc.enable()", globals=names).timeit(loops) / loops
    exec(compile(str(request["after"]), "<after>", "exec"), names)
    return seconds


if __name__ == "__main__":
    main()
