"""What creates, updates and deletes do to objects of single built-in kinds: defaults, initial status, kept fields."""

from base64 import b64encode
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.names import KubernetesFinalizer
from pykueue.api.trees import items, text, whole
from pykueue.apiserver.kinds.jobdefaults import INT32_MAX, with_selector, with_template_labels
from pykueue.apiserver.kinds.metadata import collector_finalizers, finalizers, meta, with_meta
from pykueue.apiserver.kinds.poddefaults import as_list, as_tree, default_template, each, rounded
from pykueue.apiserver.kinds.validation_pods import quality
from pykueue.apiserver.wire.writeterms import DeleteOptions

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
ENDED: Final = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""


def default_namespace(tree: Tree) -> Tree:
    """A namespace with its name as a label."""
    name = text(tree, "metadata", "name")
    if not name:
        return tree
    return with_meta(tree, labels={**as_tree(meta(tree).get("labels")), NAMESPACE_LABEL: name})


def default_secret(tree: Tree) -> Tree:
    """A Secret with its type, and with `stringData` encoded into `data`."""
    made = {**tree, "type": tree.get("type") or "Opaque"}
    texts = made.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        coded: Tree = {
            name: b64encode(value.encode()).decode() for name, value in texts.items() if isinstance(value, str)
        }
        made["data"] = {**as_tree(made.get("data")), **coded}
    return made


def default_limit_range(tree: Tree) -> Tree:
    """A LimitRange with the defaults that follow from its bounds."""

    def change(limit: Tree) -> Tree:
        made = {name: rounded(value) if isinstance(value, dict) else value for name, value in limit.items()}
        if made.get("type") != "Container":
            return made
        default = as_tree(made.get("max")) | as_tree(made.get("default"))
        request = as_tree(made.get("min")) | default | as_tree(made.get("defaultRequest"))
        return made | ({"default": default} if default else {}) | ({"defaultRequest": request} if request else {})

    spec = as_tree(tree.get("spec"))
    return {**tree, "spec": {**spec, "limits": each(spec.get("limits"), change)}}


def stored_limit_range(tree: Tree) -> Tree:
    """A LimitRange as it is stored: without limits, the list is null."""
    if items(tree, "spec", "limits"):
        return tree
    return {**tree, "spec": {**as_tree(tree.get("spec")), "limits": None}}


def default_priority_class(tree: Tree) -> Tree:
    """A PriorityClass with its preemption policy."""
    return {**tree, "preemptionPolicy": tree.get("preemptionPolicy") or "PreemptLowerPriority"}


def default_node(tree: Tree) -> Tree:
    """A Node whose whole capacity is allocatable, unless it says otherwise."""
    status = {**as_tree(tree.get("status"))}
    for name in ("capacity", "allocatable"):
        if isinstance(status.get(name), dict):
            status[name] = rounded(as_tree(status[name]))
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = status["capacity"]
    return {**tree, "status": status} if status else tree


def default_pod_template(tree: Tree) -> Tree:
    """A PodTemplate with the defaults of its pod."""
    return {**tree, "template": default_template(as_tree(tree.get("template")))}


def create_pod(tree: Tree, now: str) -> Tree:
    """A new pod with its initial status."""
    status: Tree = {"phase": "Pending", "qosClass": quality(tree)}
    if items(tree, "spec", "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**tree, "status": status}


def create_job(tree: Tree, now: str) -> Tree:
    """A new Job with an empty status, and with the labels and the selector of its pods."""
    labels = meta(as_tree(as_tree(tree.get("spec")).get("template"))).get("labels")
    made = {**with_selector(tree), "status": {}}
    if labels and meta(tree).get("labels") == labels:
        # The labels are copied from the template, which has additional ones now.
        return with_template_labels(with_meta(made, labels=None))
    return made


def create_namespace(tree: Tree, now: str) -> Tree:
    """A new namespace: active, with the finalizer that has it emptied before it is removed."""
    spec = as_tree(tree.get("spec"))
    held = [*as_list(spec.get("finalizers"))]
    if KubernetesFinalizer.NAMESPACE not in held:
        held.append(KubernetesFinalizer.NAMESPACE)
    return default_namespace({**tree, "spec": {**spec, "finalizers": held}, "status": {"phase": "Active"}})


def update_namespace(new: Tree, old: Tree) -> Tree:
    """A changed namespace with the finalizers in its spec as they were; only `finalize` changes them."""
    spec = {**as_tree(new.get("spec"))}
    spec["finalizers"] = as_tree(old.get("spec")).get("finalizers")
    return default_namespace({**new, "spec": {name: value for name, value in spec.items() if value is not None}})


def terminate_namespace(tree: Tree, options: DeleteOptions, now: str) -> Tree:
    """A namespace whose deletion has begun; it is removed when it is empty."""
    new = with_meta(tree, deletionTimestamp=now)
    new = {**new, "status": {**as_tree(new.get("status")), "phase": "Terminating"}}
    held = collector_finalizers(new, options, "delete")
    return new if held == finalizers(new) else with_meta(new, finalizers=[*held] or None)


def is_namespace_held(tree: Tree) -> bool:
    """Whether a namespace has finalizers, in its spec or in its metadata."""
    return bool(as_tree(tree.get("spec")).get("finalizers") or finalizers(tree))


def update_pod_status(new: Tree, old: Tree) -> Tree:
    """A pod with a new status, whose quality of service, owners and deletion are as they were."""
    status = as_tree(new.get("status"))
    if not status.get("qosClass") and "qosClass" in as_tree(old.get("status")):
        new = {**new, "status": {**status, "qosClass": as_tree(old.get("status"))["qosClass"]}}
    before = meta(old)
    kept: Tree = {"ownerReferences": before.get("ownerReferences")}
    if not before.get("deletionTimestamp"):
        kept["deletionTimestamp"] = None
    return with_meta(new, **kept)


def pod_grace_seconds(pod: Tree, options: DeleteOptions) -> int:
    """The grace period of a pod: 0 if nothing of it runs, and never more than a date can hold."""
    grace = options.grace
    if grace is None:
        grace = whole(pod, "spec", "terminationGracePeriodSeconds") or 0
    if not text(pod, "spec", "nodeName") or text(pod, "status", "phase") in ENDED:
        return 0
    return min(grace, INT32_MAX) if grace >= 0 else 1


def is_spec_changed(new: Tree, old: Tree) -> bool:
    """Whether the spec, or the template, of a built-in object has changed."""
    return any(new.get(name) != old.get(name) for name in ("spec", "template"))


def is_anything_changed(new: Tree, old: Tree) -> bool:
    """Whether anything but the metadata of a custom object has changed."""
    return any(new.get(name) != old.get(name) for name in {*new, *old} if name != "metadata")
