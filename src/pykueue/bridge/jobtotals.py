"""What a job asks for in total, as people read it: the requests of all its pods that run at the same time."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from pykueue.api.jobsummary import REQUESTS_MAX
from pykueue.api.names import GPU, GPU_SHARE
from pykueue.api.pods import TemplateError, decode_template
from pykueue.api.workload import Workload
from pykueue.base.text import shortened
from pykueue.base.units import Quantity
from pykueue.bridge.requests import added, pod_requests

NAME_MAX: Final = 317
"""The most characters of a resource's name: a domain, a slash and a name."""
AMOUNT_MAX: Final = 64
FIRST: Final = ("cpu", "memory", GPU, "amd.com/gpu", GPU_SHARE)
"""The resources that are listed of every job that asks for them."""


def listed(requests: Mapping[str, str]) -> tuple[Mapping[str, str], int]:
    """The requests that are listed of a job, by name, and how many are left out."""
    kept = sorted(requests, key=lambda name: (name not in FIRST, name))[:REQUESTS_MAX]
    texts = {shortened(name, NAME_MAX): shortened(requests[name], AMOUNT_MAX) for name in sorted(kept)}
    return texts, len(requests) - len(kept)


def template_totals(template: bytes | msgspec.Raw, count: int) -> Mapping[str, str]:
    """The requests of this many pods of a template; empty if the template is invalid."""
    return texts([(bytes(template), count)])


def workload_totals(workload: Workload) -> Mapping[str, str]:
    """The requests of a Workload's pods: of those that were admitted, or of all while it waits."""
    admission = workload.status.admission
    admitted = {} if admission is None else {one.name: one.count for one in admission.pod_set_assignments}
    counts = ((one, admitted.get(one.name)) for one in workload.spec.pod_sets)
    return texts([(bytes(one.template), one.count if count is None else count) for one, count in counts])


def texts(pod_sets: Iterable[tuple[bytes, int]]) -> Mapping[str, str]:
    """The sum over templates, each with a number of pods."""
    total: Mapping[str, Quantity] = {}
    for template, count in pod_sets:
        one = requests_of(template)
        total = added(total, {name: Quantity(each.nanos * count, each.family) for name, each in one.items()})
    return {name: str(amount) for name, amount in sorted(total.items())}


@lru_cache(maxsize=256)
def requests_of(template: bytes) -> Mapping[str, Quantity]:
    """The requests of one pod of a template."""
    try:
        return pod_requests(decode_template(template).spec)
    except TemplateError:
        return {}
