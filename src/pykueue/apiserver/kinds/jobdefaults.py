"""Defaults of Jobs, and the labels and selector that a new Job gets."""

from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.trees import text
from pykueue.apiserver.kinds.poddefaults import as_tree, default_template, each

INT32_MAX: Final = 2**31 - 1
BACKOFF_LIMIT: Final = 6
PREFIX: Final = "batch.kubernetes.io/"
UNSAID: Final = ("active", "succeeded", "failed", "completedIndexes")
"""Counts that a status omits while they are zero."""
JOB_NAME: Final = "job-name"
CONTROLLER_UID: Final = "controller-uid"


def default_job(job: Tree) -> Tree:
    """A Job with the defaults of its spec."""
    spec = {**as_tree(job.get("spec"))}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = BACKOFF_LIMIT if spec.get("backoffLimitPerIndex") is None else INT32_MAX
    spec["completionMode"] = spec.get("completionMode") or "NonIndexed"
    if spec.get("suspend") is None:
        spec["suspend"] = False
    if not spec.get("podReplacementPolicy"):
        spec["podReplacementPolicy"] = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    if spec.get("manualSelector") is None:
        spec["manualSelector"] = False
    policy = spec.get("podFailurePolicy")
    if isinstance(policy, dict) and "rules" in policy:
        spec["podFailurePolicy"] = {**policy, "rules": each(policy["rules"], default_rule)}
    spec["template"] = default_template(as_tree(spec.get("template")))
    return with_template_labels({**job, "spec": spec})


def without_zeros(job: Tree) -> Tree:
    """A Job whose status omits counts of zero."""
    status = job.get("status")
    if not isinstance(status, dict):
        return job
    return {**job, "status": {name: value for name, value in status.items() if value or name not in UNSAID}}


def default_rule(rule: Tree) -> Tree:
    """A rule of a pod failure policy with its defaults."""
    if "onPodConditions" not in rule:
        return rule
    patterns = each(rule["onPodConditions"], lambda one: {**one, "status": one.get("status") or "True"})
    return {**rule, "onPodConditions": patterns}


def with_template_labels(job: Tree) -> Tree:
    """A Job with its template's labels, if it has none of its own."""
    metadata = as_tree(job.get("metadata"))
    labels = as_tree(as_tree(as_tree(as_tree(job.get("spec")).get("template")).get("metadata")).get("labels"))
    if metadata.get("labels") or not labels:
        return job
    return {**job, "metadata": {**metadata, "labels": {**labels}}}


def with_selector(job: Tree) -> Tree:
    """A new Job with the labels and the selector that identify its pods."""
    spec = as_tree(job.get("spec"))
    if spec.get("manualSelector") is True:
        return job
    name, uid = text(job, "metadata", "name"), text(job, "metadata", "uid")
    template = as_tree(spec.get("template"))
    metadata = as_tree(template.get("metadata"))
    made: dict[str, Json] = {
        JOB_NAME: name,
        PREFIX + JOB_NAME: name,
        CONTROLLER_UID: uid,
        PREFIX + CONTROLLER_UID: uid,
    }
    labels = made | as_tree(metadata.get("labels"))
    selector = as_tree(spec.get("selector"))
    matched = {PREFIX + CONTROLLER_UID: uid} | as_tree(selector.get("matchLabels"))
    return {
        **job,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
