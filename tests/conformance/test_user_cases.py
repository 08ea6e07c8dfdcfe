"""The user cases: each script is one thing that people who store tensors do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import helpers

CASES = sorted((helpers.SHARED / "user_cases").glob("*.py"))
#: exit code of a script that guessed a call which does not exist here
MISSING_CALL = 77


@pytest.mark.skipif(bool(CASES), reason="the user cases are here")
def test_user_cases_absent() -> None:
    """Say in the report that the scripts were not found."""
    pytest.skip("the user cases are kept outside this repository and are not here")


@pytest.mark.parametrize("script", CASES, ids=lambda path: path.stem)
def test_user_case(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env=helpers.our_env(),
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    line = (done.stdout + done.stderr).strip()
    if done.returncode == MISSING_CALL:
        pytest.skip(line)
    assert done.returncode == 0, line
