"""Tests of what objects may be called."""

import random

import pytest

from pykueue.apiserver.kinds.names import LETTERS, dns_label, dns_subdomain, generated, path_trouble


def test_a_made_name_begins_as_wished_and_fits_everywhere() -> None:
    rng = random.Random(1)
    assert generated("job-", rng.choice).startswith("job-")
    long = generated("x" * 100, rng.choice)
    assert len(long) == 63
    assert set(long[58:]) <= set(LETTERS)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("fine", ()),
        ("with.dots", ("must not contain dots",)),
        ("x" * 64, ("must be no more than 63 characters",)),
    ],
)
def test_a_label_of_a_name_is_judged(text: str, messages: tuple[str, ...]) -> None:
    assert dns_label(text) == messages


def test_a_subdomain_may_have_dots() -> None:
    assert dns_subdomain("with.dots") == ()
    assert dns_subdomain("x" * 254) == ("must be no more than 253 characters",)


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("..", "may not be '..'"),
        ("a/b", "may not contain '/'"),
        ("a%b", "may not contain '%'"),
        ("a.b", ""),
    ],
)
def test_a_name_is_a_part_of_a_path(name: str, trouble: str) -> None:
    assert path_trouble(name) == trouble
