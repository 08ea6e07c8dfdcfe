"""What every test has: hypothesis profiles, the corpus, the user cases and the peer's interpreter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import helpers

settings.register_profile(
    "default", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def peer_corpus() -> Path:
    """Return the folder of artefacts that the published binding wrote."""
    return helpers.corpus("peer")


@pytest.fixture(scope="session")
def negative_corpus() -> Path:
    """Return the folder of damaged artefacts."""
    return helpers.corpus("negative")


@pytest.fixture(scope="session")
def reference_corpus() -> Path:
    """Return the folder of the reference's own vectors; they are not kept in this repository."""
    return helpers.corpus("reference")


@pytest.fixture(scope="session")
def peer_python() -> str:
    """Return the interpreter that has the published binding."""
    found = helpers.peer_python()
    if found is None:
        pytest.skip("the published binding is not installed; `make test` installs it")
    return found
