"""Shell completion, asked as a shell asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hurray
from helpers import our_env

pytest.importorskip("typer")


def complete(words: str, folder: Path) -> list[str]:
    env = {
        **our_env(),
        "_HURRAY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "hurray"], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.split()


def test_commands_and_names(tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"weight": np.ones(2), "bias": np.ones(2), "width": np.ones(2)})
    assert complete("hurray ve", tmp_path) == ["verify"]
    for command in ("cat", "inspect"):
        assert complete(f"hurray {command} a.hrry w", tmp_path) == ["weight", "width"]
        assert complete(f"hurray {command} missing.hrry ", tmp_path) == []
    assert "--layout" in complete("hurray convert --", tmp_path)
