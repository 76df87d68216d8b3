"""Names of ProvisioningRequests, by Workload, check and attempt, and of their PodTemplates, by pod set."""

import re
from hashlib import sha1
from typing import Final

HASH_LENGTH: Final = 5
PREFIX_MAX: Final = 246
"""Leaves room for six digits in the name of an object."""
TEMPLATE_MAX: Final = 247
TEMPLATE_PREFIX: Final = "ppt"
ATTEMPT: Final = re.compile("[1-9][0-9]{0,5}")


def request_prefix(workload: str, check: str) -> str:
    """The common prefix of all attempts of one check; the number of the attempt follows.

    A long name is cut here and not after the number, which must stay readable.
    """
    name = f"{workload}-{check}"
    return (name if len(name) <= PREFIX_MAX else cut(name, PREFIX_MAX - HASH_LENGTH - 1)) + "-"


def request_name(workload: str, check: str, attempt: int) -> str:
    """The name of the ProvisioningRequest of one attempt."""
    return f"{request_prefix(workload, check)}{attempt}"


def template_name(request: str, pod_set: str) -> str:
    """The name of the PodTemplate with which a request asks for a pod set."""
    name = f"{TEMPLATE_PREFIX}-{request}-{pod_set}"
    return name if len(name) <= TEMPLATE_MAX else cut(name, TEMPLATE_MAX)


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """The attempt of a check that this request name stands for; None if it is not one."""
    prefix = request_prefix(workload, check)
    number = request.removeprefix(prefix)
    return int(number) if request.startswith(prefix) and ATTEMPT.fullmatch(number) else None


def cut(name: str, length: int) -> str:
    """A name cut to this length, with a hash of the whole."""
    digest = sha1(name.encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
    return f"{name[:length].rstrip('-.')}-{digest}"
