"""RBAC: the manager's own rights, and roles for users and administrators.

The manager has only the rights that it uses: a change that makes it do something new adds the right here. The
end-to-end tests run it with these rights alone and fail if one is missing.
"""

from collections.abc import Iterator
from typing import Final

from pykueue.api.config.types import FRAMEWORKS
from pykueue.api.core import Tree
from pykueue.api.install.crds import CONVERTED
from pykueue.api.install.install import ACCOUNT, Install, named
from pykueue.api.install.visibility import is_served, reader_binding
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP, Label
from pykueue.api.query import CLUSTER_PREVIEWS, ESTIMATES, EXPLANATIONS, PREVIEWS, QUERY_GROUP
from pykueue.api.visibility import PENDING_WORKLOADS, VISIBILITY_GROUP

MUTATING: Final = "kueue-mutating-webhook-configuration"
VALIDATING: Final = "kueue-validating-webhook-configuration"
AUTOSCALING: Final = KINDS["ProvisioningRequest"].group
RBAC: Final = "rbac.authorization.k8s.io"
GET: Final = ("get",)
CREATE: Final = ("create",)
READ: Final = ("get", "list", "watch")
WRITE: Final = ("create", "delete", "get", "list", "patch", "update", "watch")


def rights(group: str, resources: tuple[str, ...], verbs: tuple[str, ...], names: tuple[str, ...] = ()) -> Tree:
    """One rule of a role."""
    rule: Tree = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return rule | ({"resourceNames": [*names]} if names else {})


def owners() -> Iterator[Tree]:
    """The right to read what a Job may belong to, so that only the topmost job is queued."""
    by_group: dict[str, list[str]] = {"apps": ["replicasets"]}
    for framework in FRAMEWORKS.values():
        kind, _, group = framework.split(".", 2)
        by_group.setdefault(group, []).append(f"{kind.lower()}s")
    for group, plurals in sorted(by_group.items()):
        if group not in ("", "batch"):
            yield rights(group, tuple(sorted(plurals)), ("get",))


MANAGER: Final[tuple[Tree, ...]] = (
    rights("", ("limitranges", "namespaces"), READ),
    # Pods with a queue label that are not queued get an Event.
    rights("", ("pods",), ("list", "watch")),
    rights("", ("podtemplates",), ("create", "delete", *READ, "patch")),
    rights(AUTOSCALING, ("provisioningrequests",), ("create", "delete", *READ)),
    rights(AUTOSCALING, ("provisioningrequests/finalizers",), ("update",)),
    rights("node.k8s.io", ("runtimeclasses",), READ),
    rights("scheduling.k8s.io", ("priorityclasses",), READ),
    rights("batch", ("jobs",), ("delete", *READ, "patch")),
    rights("batch", ("jobs/status",), ("patch",)),
    # An owner reference that blocks the owner's deletion needs this right on the owner.
    rights("batch", ("jobs/finalizers",), ("update",)),
    *owners(),
    rights(GROUP, ("workloads",), ("create", "delete", *READ, "patch")),
    rights(GROUP, ("workloads/finalizers",), ("update",)),
    # Finalizers are added and removed by patches of the objects themselves.
    rights(GROUP, ("admissionchecks", "clusterqueues", "resourceflavors"), (*READ, "patch")),
    rights(GROUP, ("cohorts", "localqueues", "provisioningrequestconfigs", "workloadpriorityclasses"), READ),
    rights(
        GROUP,
        ("admissionchecks/status", "clusterqueues/status", "cohorts/status", "localqueues/status", "workloads/status"),
        ("patch",),
    ),
    rights("events.k8s.io", ("events",), ("create", "patch")),
    rights(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get", "patch"),
        tuple(f"{KINDS[kind].plural}.{GROUP}" for kind in CONVERTED),
    ),
    rights("admissionregistration.k8s.io", ("mutatingwebhookconfigurations",), ("get", "patch"), (MUTATING,)),
    rights("admissionregistration.k8s.io", ("validatingwebhookconfigurations",), ("get", "patch"), (VALIDATING,)),
)
"""The manager's rights in the whole cluster."""
ELECTION: Final = (rights("coordination.k8s.io", ("leases",), ("create", "get", "patch")),)
METRICS_AUTH: Final = (
    rights("authentication.k8s.io", ("tokenreviews",), ("create",)),
    rights("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)

ADMINS: Final = (Label.BATCH_ADMIN.value,)
EVERYONE: Final = (Label.BATCH_ADMIN.value, Label.BATCH_USER.value)
BUILT_IN: Final = tuple(f"{RBAC}/aggregate-to-{role}" for role in ("view", "edit", "admin"))
PEOPLE: Final[tuple[tuple[str, str, str, bool, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("clusterqueue", GROUP, "clusterqueues", True, ADMINS, (*ADMINS, BUILT_IN[2])),
    ("cohort", GROUP, "cohorts", True, ADMINS, (*ADMINS, BUILT_IN[2])),
    ("resourceflavor", GROUP, "resourceflavors", False, ADMINS, (*ADMINS, BUILT_IN[2])),
    ("topology", GROUP, "topologies", False, ADMINS, (*ADMINS, BUILT_IN[2])),
    ("localqueue", GROUP, "localqueues", True, ADMINS, (*EVERYONE, *BUILT_IN)),
    ("workload", GROUP, "workloads", True, ADMINS, (*EVERYONE, *BUILT_IN)),
    ("job", "batch", "jobs", True, EVERYONE, (*EVERYONE, *BUILT_IN)),
)
"""Kinds that users work with, each with its roles.

For each: short name, group, plural, whether it has a status, and the roles that include its editors and its viewers.
Users may not read ClusterQueues, since those show the quota of others.
"""


def rbac(install: Install) -> tuple[Tree, ...]:
    """The manager's account with its rights, and the roles for users."""
    namespace, election = install.namespace, install.election_namespace
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(ACCOUNT, namespace)},
        cluster_role("kueue-manager-role", MANAGER),
        binding(install, "kueue-manager"),
        role("kueue-leader-election-role", election, ELECTION),
        binding(install, "kueue-leader-election", election),
        role(
            "kueue-manager-secrets-role", namespace, (rights("", ("secrets",), ("get", "update"), (install.secret,)),)
        ),
        binding(install, "kueue-manager-secrets", namespace),
        cluster_role("kueue-metrics-auth-role", METRICS_AUTH),
        binding(install, "kueue-metrics-auth"),
        *((reader_binding(install),) if is_served(install) else ()),
        cluster_role("kueue-metrics-reader", ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]},)),
        aggregated("kueue-batch-admin-role", Label.BATCH_ADMIN.value),
        aggregated("kueue-batch-user-role", Label.BATCH_USER.value),
        *leaf_roles(),
        *pending_roles(),
        *query_roles(),
    )


def cluster_role(name: str, rules: tuple[Tree, ...], labels: tuple[tuple[str, str], ...] = ()) -> Tree:
    """A ClusterRole."""
    metadata = named(name, **dict(labels))
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [*rules]}


def role(name: str, namespace: str, rules: tuple[Tree, ...]) -> Tree:
    """A Role."""
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": named(name, namespace), "rules": [*rules]}


def binding(install: Install, name: str, namespace: str = "") -> Tree:
    """Binds the manager to the role of this name, in one namespace or everywhere."""
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": named(f"{name}-rolebinding", namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": f"{name}-role"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": install.namespace}],
    }


def aggregated(name: str, label: str) -> Tree:
    """A role that aggregates every role with this label."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": named(name),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    }


def leaf_roles() -> Iterator[Tree]:
    """For each kind that users work with, a role to edit it and one to view it."""
    for short, group, plural, status, editors, viewers in PEOPLE:
        for who, verbs, parts in (("editor", WRITE, editors), ("viewer", READ, viewers)):
            labels = (("rbac.kueue.x-k8s.io/role", f"{short}-{who}"), *((part, "true") for part in parts))
            beside = (rights(group, (f"{plural}/status",), ("get",)),) if status else ()
            yield cluster_role(f"kueue-{short}-{who}-role", (rights(group, (plural,), verbs), *beside), labels)


def pending_roles() -> Iterator[Tree]:
    """The roles to see the pending workloads of a queue; those of a ClusterQueue show the names of other teams."""
    for short, plural, parts in (
        ("pending-workloads-cq", "clusterqueues", (*ADMINS, *BUILT_IN)),
        ("pending-workloads-lq", "localqueues", (*EVERYONE, *BUILT_IN)),
    ):
        labels = (("rbac.kueue.x-k8s.io/role", f"{short}-viewer"), *((part, "true") for part in parts))
        rule = rights(VISIBILITY_GROUP, (f"{plural}/{PENDING_WORKLOADS}",), READ)
        yield cluster_role(f"kueue-{short}-viewer-role", (rule,), labels)


def query_roles() -> Iterator[Tree]:
    """The roles to ask why, when and what if: of one's own namespace, and of the cluster."""
    own = (
        rights(QUERY_GROUP, tuple(f"{plural}/{EXPLANATIONS}" for plural in ("localqueues", "workloads")), GET),
        rights(QUERY_GROUP, (f"workloads/{ESTIMATES}",), GET),
        rights(QUERY_GROUP, (PREVIEWS,), CREATE),
    )
    cluster = (
        rights(QUERY_GROUP, (f"clusterqueues/{EXPLANATIONS}",), GET),
        rights(QUERY_GROUP, (CLUSTER_PREVIEWS,), CREATE),
    )
    for short, rules, parts in (("query", own, EVERYONE), ("cluster-query", cluster, ADMINS)):
        yield cluster_role(f"pykueue-{short}-role", rules, tuple((part, "true") for part in parts))
