"""The table of Kubernetes' own kinds that this server serves.

A kind is served only if something acts on it or other objects refer to it: a Deployment that no controller carries out
is better refused.
"""

from collections.abc import Mapping
from typing import Final

from pykueue.apiserver.kinds.served import ALL_VERBS, Served, Subresource
from pykueue.apiserver.kinds.strategies import builtin_strategy
from pykueue.kube.port import Resource

CREATED: Final = ("create",)


def kind(
    group: str,
    version: str,
    plural: str,
    name: str,
    *,
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: Mapping[str, Subresource] | None = None,
    selectable: tuple[str, ...] = (),
    storage: str = "",
    stored_version: str = "",
    warning: str = "",
) -> Served:
    """A row of the table; `strategies` adds what is special about the kind."""
    resource = Resource(group, version, plural, name, namespaced)
    return Served(
        resource=resource,
        storage=storage or str(resource),
        stored_version=stored_version or resource.api_version,
        singular=name.lower(),
        strategy=builtin_strategy(resource),
        short_names=short,
        categories=categories,
        verbs=verbs,
        subresources=subresources or {},
        selectable=selectable,
        warning=warning,
        list_kind=f"{name}List",
    )


EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
NEW_EVENT_FIELDS: Final = (
    *(field.replace("involvedObject", "regarding") for field in EVENT_FIELDS[:7]),
    "reason",
    "reportingController",
    "type",
)
POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)

BUILTINS: Final = (
    kind("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    kind("", "v1", "events", "Event", short=("ev",), selectable=EVENT_FIELDS),
    kind("", "v1", "limitranges", "LimitRange", short=("limits",)),
    kind(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short=("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources={"finalize": Subresource("Namespace", ("update",)), "status": Subresource("Namespace")},
        selectable=("status.phase",),
    ),
    kind(
        "",
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short=("no",),
        subresources={"status": Subresource("Node")},
        selectable=("spec.unschedulable",),
    ),
    kind(
        "",
        "v1",
        "pods",
        "Pod",
        short=("po",),
        categories=("all",),
        subresources={
            "attach": Subresource("PodAttachOptions", ("create", "get")),
            "binding": Subresource("Binding", CREATED),
            "eviction": Subresource("Eviction", CREATED, "policy", "v1"),
            "exec": Subresource("PodExecOptions", ("create", "get")),
            "log": Subresource("Pod", ("get",)),
            "status": Subresource("Pod"),
        },
        selectable=POD_FIELDS,
    ),
    kind("", "v1", "podtemplates", "PodTemplate"),
    kind("", "v1", "secrets", "Secret", selectable=("type",)),
    # There are none, but clients list them.
    kind("", "v1", "services", "Service", short=("svc",), categories=("all",), verbs=("get", "list", "watch")),
    kind("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short=("crd", "crds"),
        categories=("api-extensions",),
        subresources={"status": Subresource("CustomResourceDefinition")},
    ),
    kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=CREATED),
    kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=CREATED),
    kind("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATED),
    kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs=CREATED,
    ),
    kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        namespaced=False,
        verbs=CREATED,
    ),
    kind("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=CREATED),
    kind(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=("all",),
        subresources={"status": Subresource("Job")},
        selectable=("status.successful",),
    ),
    kind("coordination.k8s.io", "v1", "leases", "Lease"),
    kind(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short=("ev",),
        selectable=NEW_EVENT_FIELDS,
        storage="events",
        stored_version="v1",
    ),
    kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),
)
