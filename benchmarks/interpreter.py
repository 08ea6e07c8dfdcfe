"""Other interpreters that run and time snippets.

The published binding has this library's import name, so it lives in an interpreter of its own; senders of streams are
processes too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Interpreter", "find_peer"]

ROOT = Path(__file__).resolve().parent.parent
_SERVER = Path(__file__).resolve().with_name("server.py")
_PROBE = "from importlib.metadata import version; version('pyhurray'); import hurray"


class Interpreter:
    """A process that runs snippets in one namespace.

    Parameters
    ----------
    python : str
        The interpreter.
    isolated : bool
        Ignore this process's paths and environment, so that only the interpreter's own packages are found.
    """

    def __init__(self, python: str = sys.executable, *, isolated: bool = False) -> None:
        command = [python, *(["-I"] if isolated else []), str(_SERVER)]
        env = dict(os.environ)
        if not isolated:
            paths = [str(ROOT), *(p for p in sys.path if p)]
            env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=env, cwd=ROOT
        )
        self._waiting = False

    def exec(self, code: str) -> None:
        """Run statements."""
        if code:
            self._ask(op="exec", code=code)

    def eval(self, code: str) -> Any:
        """Return the value of an expression, which JSON must be able to hold."""
        return self._ask(op="eval", code=code)

    def time(self, code: str, loops: int, *, before: str = "", after: str = "") -> float:
        """Return the seconds that one loop over ``code`` takes there."""
        return float(self._ask(op="time", code=code, loops=loops, before=before, after=after))

    def start(self, code: str) -> None:
        """Let statements run while this process goes on; :meth:`wait` collects them."""
        self._send(op="exec", code=code)
        self._waiting = True

    def wait(self) -> None:
        """Wait for what :meth:`start` started."""
        if self._waiting:
            self._waiting = False
            self._receive()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ask(self, **request: Any) -> Any:
        self.wait()
        self._send(**request)
        return self._receive()

    def _send(self, **request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the interpreter ended with status {self._process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply.get("value")


def find_peer() -> str | None:
    """Return the interpreter that has the published binding, or None."""
    candidate = os.environ.get("HURRAY_PEER_PYTHON") or str(ROOT / ".venv-peer" / "bin" / "python")
    if not os.path.exists(candidate):
        return None
    done = subprocess.run([candidate, "-I", "-c", _PROBE], capture_output=True, check=False)
    return candidate if done.returncode == 0 else None
