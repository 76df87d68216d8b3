"""What a test does that needs a program which is not there."""

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Skip a test for want of a program; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; CI must have it")
    pytest.skip(what)
