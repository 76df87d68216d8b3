"""Pods of a Job: the Job's template, with labels, owner and index."""

from collections.abc import Iterable
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.names import COMPLETION_INDEX, Annotation
from pykueue.kubecontrollers.jobplan import NewPod
from pykueue.kubecontrollers.jobviews import FAILURES, IGNORED_FAILURES, TRACKING, Job, Work

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
PREFIX_LENGTH_MAX: Final = 58
"""The server appends five characters to a prefix, and a name has at most 63."""


def new_pods(job: Job, work: Work, wanted: Iterable[NewPod]) -> list[bytes]:
    """The pods to create."""
    template = msgspec.json.decode(work.spec.template)
    metadata, spec = tree_in(template, "metadata"), tree_in(template, "spec")
    if work.spec.indexed:
        spec = {
            **spec,
            **{part: with_variable(spec[part]) for part in ("initContainers", "containers") if part in spec},
        }
    finalizers = metadata.get("finalizers")
    kept: list[Json] = finalizers if isinstance(finalizers, list) else []
    # The template must not set the creator of a pod.
    notes: Tree = {key: note for key, note in tree_in(metadata, "annotations").items() if key != Annotation.CREATOR}
    if work.creator:
        notes[Annotation.CREATOR] = work.creator
    base: Tree = {
        "namespace": job.namespace,
        "generateName": f"{job.name}-",
        "labels": tree_in(metadata, "labels"),
        "annotations": notes,
        "finalizers": kept if TRACKING in kept else [*kept, TRACKING],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": job.name,
                "uid": work.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    return [msgspec.json.encode(new_pod(job, base, spec, one)) for one in wanted]


def new_pod(job: Job, base: Tree, spec: Tree, wanted: NewPod) -> Tree:
    """One pod."""
    metadata = dict(base)
    if wanted.index is not None:
        index = str(wanted.index)
        notes = {**tree_in(base, "annotations"), COMPLETION_INDEX: index}
        if wanted.failures is not None:
            notes[FAILURES] = str(wanted.failures)
            if wanted.ignored:
                notes[IGNORED_FAILURES] = str(wanted.ignored)
        metadata["annotations"] = notes
        metadata["labels"] = {**tree_in(base, "labels"), COMPLETION_INDEX: index}
        suffix = f"-{index}-"
        metadata["generateName"] = job.name[: PREFIX_LENGTH_MAX - len(suffix)] + suffix
        spec = {**spec, "hostname": f"{job.name}-{index}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def tree_in(tree: Tree, key: str) -> Tree:
    """The object under a key; empty if there is none."""
    found = tree.get(key)
    return found if isinstance(found, dict) else {}


def with_variable(containers: Json) -> Json:
    """The containers with the variable for their index."""
    if not isinstance(containers, list):
        return containers
    return [with_index(container) if isinstance(container, dict) else container for container in containers]


def with_index(container: Tree) -> Tree:
    """The container with the variable for its index, unless it has one of that name."""
    env = container.get("env")
    known: list[Json] = env if isinstance(env, list) else []
    if any(isinstance(one, dict) and one.get("name") == INDEX_VARIABLE for one in known):
        return container
    field: Tree = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*known, {"name": INDEX_VARIABLE, "valueFrom": field}]}
