"""Generates and validates names of objects."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from pykueue.api.fields import FieldError, invalid
from pykueue.api.labels import SUBDOMAIN_FORM
from pykueue.api.labels import dns_label as label_form
from pykueue.api.labels import dns_subdomain as subdomain_form

LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar letters, so that names do not form words."""
RANDOM_LENGTH: Final = 5
PREFIX_MAX: Final = 63 - RANDOM_LENGTH
TRIES: Final = 8
"""How many names are tried."""
DOTS: Final = (".", "..")

SUBDOMAIN: Final = re.compile(SUBDOMAIN_FORM)


def generated(prefix: str, choose: Callable[[str], str]) -> str:
    """A name with this prefix that is probably unused; `choose` picks a letter at random."""
    return prefix[:PREFIX_MAX] + "".join(choose(LETTERS) for _ in range(RANDOM_LENGTH))


def dns_label(text: str) -> tuple[str, ...]:
    """Kubernetes' messages for a name that is not a DNS label."""
    if "." in text and SUBDOMAIN.fullmatch(text):
        return (*map(in_characters, label_form(text)[:-1]), "must not contain dots")
    return tuple(map(in_characters, label_form(text)))


def dns_subdomain(text: str) -> tuple[str, ...]:
    """Kubernetes' messages for a name that is not a DNS subdomain."""
    return tuple(map(in_characters, subdomain_form(text)))


def in_characters(message: str) -> str:
    """A message about a name in kube-apiserver's wording, which counts characters."""
    return message.replace(" bytes", " characters") if message.startswith("must be no more") else message


def name_errors(judge: Callable[[str], tuple[str, ...]], name: str, prefix: str) -> Iterator[FieldError]:
    """The errors of a name and of its prefix for generation; `judge` returns the messages for a name."""
    if prefix:
        # A prefix usually ends in a hyphen, which a name must not.
        tried = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        yield from (invalid("metadata.generateName", prefix, message) for message in judge(tried))
    if name:
        yield from (invalid("metadata.name", name, message) for message in judge(name))


def path_messages(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a path segment; names of Events have no other restriction."""
    trouble = path_trouble(text)
    return (trouble,) if trouble else ()


def path_trouble(name: str) -> str:
    """Why a text cannot be a path segment; empty if it can."""
    if name in DOTS:
        return f"may not be '{name}'"
    return next((f"may not contain '{letter}'" for letter in "/%" if letter in name), "")
