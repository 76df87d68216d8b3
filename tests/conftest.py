"""What do all tests share? The Hypothesis profiles, and the option that accepts new output in the stories."""

import os

import pytest
from hypothesis import settings

# A busy machine must not fail a test, so no profile has a deadline. The default one draws the same examples in each
# run: a red `make check` is red for the next person too. Finding new examples is the business of the long one.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50, database=None)
settings.register_profile("long", deadline=None, max_examples=500, stateful_step_count=80, print_blob=True)
settings.load_profile(os.environ.get("PYKUEUE_HYPOTHESIS", "default"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow(why): takes so long that `make test` leaves it to `make slow`")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not beside the stories: pytest reads options only from the conftest of the folder it is started on.
    parser.addoption("--rewrite", action="store_true", help="write what the engine decides into the stories")
