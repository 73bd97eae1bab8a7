"""Fixtures that every test may ask for."""

import pytest

from tests.tiny import MakePolicy, make_tiny


@pytest.fixture(scope="session")
def make_policy() -> MakePolicy:
    """Factory of tiny Qwen3 policies (`tests.tiny.make_tiny`), float32 unless asked for float64."""
    return make_tiny
