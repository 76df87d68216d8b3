"""What a ProvisioningRequest asks for: a Workload's pods, by template and count, and the parameters of the class."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from pykueue.api.checks import ProvisioningRequest, ProvisioningRequestConfigSpec
from pykueue.api.convert import V1BETA2
from pykueue.api.core import Json, Tree
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.names import Annotation, Label
from pykueue.api.workload import PodSet, Workload
from pykueue.base.struct import Frozen
from pykueue.checks.requestnames import template_name
from pykueue.jobs.podsets import (
    CONTAINER_LISTS,
    by_flavors,
    info_of_template,
    merged,
    part,
    plain,
    template_tree,
    trees,
)
from pykueue.jobs.workload import PROVISIONING_PREFIX, owner_reference

API_VERSION: Final = "autoscaling.x-k8s.io/v1"
IDENTICAL: Final = "IdenticalPodTemplates"
SCHEDULING: Final = ("nodeSelector", "tolerations", "affinity", "resourceClaims", "resources")
"""Pod fields that decide where it may run, besides the requests of its containers."""
DIGEST_LENGTH: Final = 16
PARAMETERS_MAX: Final = 100
PARAMETER_LENGTH_MAX: Final = 255


class Pods(Frozen):
    """Pods of one template, and their pod sets; the first pod set supplied the template."""

    pod_sets: tuple[str, ...]
    template: Tree
    count: int


def is_needed(workload: Workload, config: ProvisioningRequestConfigSpec) -> bool:
    """Whether the Workload has pods that need a request."""
    return any(counted(workload, one) for one in relevant(workload, config))


def asked(
    workload: Workload, config: ProvisioningRequestConfigSpec, flavors: Mapping[str, ResourceFlavor]
) -> tuple[Pods, ...]:
    """The pods to request, with pod sets merged as the configuration says.

    Raises `MissingFlavorError` for a flavor that does not exist, and `InjectionError` if a template contradicts its
    flavors.
    """
    found: list[Pods] = []
    for one in relevant(workload, config):
        count = counted(workload, one)
        if count:
            join(found, Pods((one.name,), on_its_nodes(workload, one, flavors), count), config.pod_set_merge_policy)
    return tuple(found)


def relevant(workload: Workload, config: ProvisioningRequestConfigSpec) -> list[PodSet]:
    """The pod sets that use a resource that the autoscaler manages; without a list it manages all."""
    managed = set(config.managed_resources)
    return [one for one in workload.spec.pod_sets if one.count > 0 and (not managed or uses(one, managed))]


def uses(pod_set: PodSet, resources: set[str]) -> bool:
    """Whether a container of a pod set asks for any of these resources."""
    spec = part(template_tree(pod_set.template), "spec")
    return any(
        not resources.isdisjoint(part(part(container, "resources"), kind))
        for name in CONTAINER_LISTS
        for container in trees(spec.get(name))
        for kind in ("requests", "limits")
    )


def counted(workload: Workload, pod_set: PodSet) -> int:
    """How many pods of a pod set were admitted."""
    admission = workload.status.admission
    given = () if admission is None else admission.pod_set_assignments
    found = next((one for one in given if one.name == pod_set.name), None)
    if found is None:
        return 0
    return pod_set.count if found.count is None else found.count


def on_its_nodes(workload: Workload, pod_set: PodSet, flavors: Mapping[str, ResourceFlavor]) -> Tree:
    """The template of a pod set with its flavors injected, each container requesting at least its limits."""
    admission = workload.status.admission
    assert admission is not None, "only a Workload with quota is asked for"
    given = next(one for one in admission.pod_set_assignments if one.name == pod_set.name)
    template = template_tree(pod_set.template)
    wanted = merged(info_of_template(template), by_flavors(given, pod_set.count, flavors))
    spec = dict(part(template, "spec"))
    if wanted.node_selector:
        spec["nodeSelector"] = {**wanted.node_selector}
    if wanted.tolerations:
        spec["tolerations"] = [*wanted.tolerations]
    for name in CONTAINER_LISTS:
        if spec.get(name):
            spec[name] = [with_requests(one) for one in trees(spec[name])]
    return {**template, "spec": spec}


def with_requests(container: Tree) -> Json:
    """A container with its limits as missing requests."""
    resources = part(container, "resources")
    limits = part(resources, "limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **part(resources, "requests")}}}


def join(found: list[Pods], more: Pods, policy: str | None) -> None:
    """Add pods to the first entry that the policy treats as equal, or to the list."""
    for place, other in enumerate(found):
        if policy is not None and alike(other.template, more.template, policy):
            found[place] = Pods(other.pod_sets + more.pod_sets, other.template, other.count + more.count)
            return
    found.append(more)


def alike(first: Tree, second: Tree, policy: str) -> bool:
    """Whether the policy treats two templates as equal."""
    if policy == IDENTICAL:
        return first == second
    return needs(first) == needs(second)


def needs(template: Tree) -> Json:
    """The parts of a template that decide which nodes are suitable."""
    spec = part(template, "spec")
    requests: list[Json] = [
        [plain(part(part(container, "resources"), "requests"), "requests") for container in trees(spec.get(name))]
        for name in CONTAINER_LISTS
    ]
    return [*requests, *(plain(spec.get(name)) for name in SCHEDULING)]


def parameters(workload: Workload, config: ProvisioningRequestConfigSpec) -> dict[str, str]:
    """The parameters of a request: those of the configuration, overridden by the Workload's annotations."""
    own = {
        key.removeprefix(PROVISIONING_PREFIX): text
        for key, text in workload.metadata.annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
    }
    return {**config.parameters, **own}


def fault(given: Mapping[str, str]) -> str:
    """Why a request cannot have these parameters; empty if it can."""
    if len(given) > PARAMETERS_MAX:
        return f"{len(given)} parameters are more than the {PARAMETERS_MAX} that a ProvisioningRequest may have"
    long = min((key for key, text in given.items() if len(text) > PARAMETER_LENGTH_MAX), default=None)
    if long is None:
        return ""
    return f'the parameter "{long}" of the ProvisioningRequest is longer than {PARAMETER_LENGTH_MAX} characters'


def digest(pods: tuple[Pods, ...]) -> str:
    """A hash of everything that is asked for, which shows whether a request is out of date."""
    whole = [[list(one.pod_sets), one.template, one.count] for one in pods]
    return sha256(msgspec.json.encode(whole, order="deterministic")).hexdigest()[:DIGEST_LENGTH]


def asks_for(
    request: ProvisioningRequest, workload: Workload, config: ProvisioningRequestConfigSpec, pods: tuple[Pods, ...]
) -> bool:
    """Whether a request still asks for the right things; one that Kueue made carries less information."""
    spec = request.spec
    listed = tuple((one.pod_template_ref.name, one.count) for one in spec.pod_sets)
    return (
        spec.provisioning_class_name == config.provisioning_class_name
        and dict(spec.parameters) == parameters(workload, config)
        and listed == tuple((template_name(request.name, one.pod_sets[0]), one.count) for one in pods)
        and request.metadata.annotations.get(Annotation.ASKED_FOR) in (None, digest(pods))
    )


def request_tree(name: str, workload: Workload, config: ProvisioningRequestConfigSpec, pods: tuple[Pods, ...]) -> Tree:
    """A ProvisioningRequest that belongs to its Workload."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "labels": {Label.MANAGED.value: "true"},
            "annotations": {Annotation.ASKED_FOR.value: digest(pods)},
            "ownerReferences": [owned_by(workload)],
        },
        "spec": {
            "provisioningClassName": config.provisioning_class_name or "",
            "parameters": {**parameters(workload, config)},
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, one.pod_sets[0])}, "count": one.count} for one in pods
            ],
        },
    }


def template_trees(request: str, workload: Workload, pods: tuple[Pods, ...]) -> tuple[Tree, ...]:
    """The PodTemplates of a request, each with a digest; the Workload owns them until the request exists."""
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": template_name(request, one.pod_sets[0]),
                "namespace": workload.namespace,
                "labels": {Label.MANAGED.value: "true"},
                "annotations": {Annotation.ASKED_FOR.value: digest((one,))},
                "ownerReferences": [owned_by(workload)],
            },
            "template": one.template,
        }
        for one in pods
    )


def owned_by(workload: Workload) -> Tree:
    """The owner reference to a Workload."""
    return owner_reference(api_version=V1BETA2, kind="Workload", metadata=workload.metadata)
