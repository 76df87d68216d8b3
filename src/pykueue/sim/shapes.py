"""Recognizes Jobs that differ only in names, queues, classes and plans, so that one of them is validated for all."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykueue.api.codec import DecodeError, encoded
from pykueue.api.core import Tree
from pykueue.api.labels import dns_label, dns_subdomain, label_value
from pykueue.api.names import Label
from pykueue.api.pods import Job
from pykueue.sim.plans import OF_A_JOB

PLAN_LENGTH_MAX: Final = 64
SHAPE_BYTES_MAX: Final = 64 * 1024
"""Longer annotations and Jobs are not compared: annotations have a limit in total, to which the plan contributes."""
Free: TypeAlias = Mapping[str, Callable[[str], bool]]
"""Keys whose values may differ between Jobs of one shape, and which of these values are valid."""
FREE: Final[Free] = {
    "name": lambda text: not dns_subdomain(text),
    "namespace": lambda text: not dns_label(text),
}
FREE_ENTRIES: Final[Mapping[str, Free]] = {
    "labels": {
        Label.QUEUE: lambda text: not dns_subdomain(text) and not label_value(text),
        Label.PRIORITY_CLASS: lambda text: not label_value(text),
    },
    "annotations": dict.fromkeys(OF_A_JOB, lambda text: len(text) <= PLAN_LENGTH_MAX),
}


def shape_of(tree: Tree) -> bytes | None:
    """The Job without its name, namespace, queue, class and plan; None if the object is to be validated by itself.

    Whether the rest is valid, and what the pods ask for, does not depend on those values if they are valid themselves;
    what they mean is read for each Job. Jobs are compared as JSON, which distinguishes 1 from 1.0 and from true.
    """
    metadata = tree.get("metadata")
    if tree.get("kind") != "Job" or not isinstance(metadata, dict) or not metadata.get("name") or "uid" in metadata:
        return None
    blank = blanked(metadata, FREE)
    for field, free in FREE_ENTRIES.items():
        if blank is not None and field in blank:
            entries = blanked(blank[field], free)
            blank = None if entries is None else {**blank, field: entries}
    if blank is None:
        return None
    try:
        shape = encoded({**tree, "metadata": blank}, where="Job")
    except DecodeError:
        return None
    return shape if len(shape) <= SHAPE_BYTES_MAX else None


def blanked(entries: object, free: Free) -> Tree | None:
    """The entries without the values that are free; None if one of those is not valid."""
    if not isinstance(entries, dict):
        return None
    blank: Tree = dict(entries)
    for key, is_valid in free.items():
        if key in blank:
            value = blank[key]
            if not isinstance(value, str) or not is_valid(value):
                return None
            blank[key] = ""
    return blank


def alike(job: Job, tree: Tree) -> Job:
    """The decoded Job of a tree, from another of its shape."""
    metadata = tree["metadata"]
    assert isinstance(metadata, dict), "a tree without metadata has no shape"
    own = {key: text for key in FREE if isinstance(text := metadata.get(key), str)}
    labels, annotations = (
        {key: text for key in free if isinstance(entries, dict) and isinstance(text := entries.get(key), str)}
        for entries, free in ((metadata.get(field), free) for field, free in FREE_ENTRIES.items())
    )
    known = job.metadata
    return replace(
        job,
        metadata=replace(
            known, **own, labels={**known.labels, **labels}, annotations={**known.annotations, **annotations}
        ),
    )
