"""Fixtures that every test may ask for; one thread for all."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a forked child hangs on a thread pool

from tests.tiny import MakePolicy, make_tiny  # noqa: E402


@pytest.fixture(scope="session")
def make_policy() -> MakePolicy:
    """Factory of tiny Qwen3 policies (`tests.tiny.make_tiny`), float32 unless asked for float64."""
    return make_tiny
