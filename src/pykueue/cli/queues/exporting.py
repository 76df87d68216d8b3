"""What moves from one machine to a cluster: objects without what this server added, and a lint of what cannot move."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pykueue.api.names import Annotation
from pykueue.api.trees import Tree, has, mapping, mappings, member, text
from pykueue.cli.jobend import end_of
from pykueue.node.supervision.followers import ANNOTATION as FOLLOWER

DROPPED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "batch.kubernetes.io/job-tracking",
        Annotation.CREATOR.value,
        Annotation.UMASK.value,
        FOLLOWER,
    }
)
"""Annotations that mean something to this server alone."""
MADE_LABELS: Final = frozenset(
    {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}
)
"""Labels that the Job controller adds to the pod template."""
NO_IMAGES: Final = frozenset({"", "local", "none"})
OF_THE_MACHINE: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME"}
)
USER_ROLE: Final = "kueue-batch-user-role"
ADMIN_ROLE: Final = "kueue-batch-admin-role"
RBAC: Final = "rbac.authorization.k8s.io"


class Moved(NamedTuple):
    """An object for a cluster, and what has to be changed in it by hand."""

    tree: dict[str, Any]
    problems: list[str]

    @property
    def where(self) -> str:
        """The kind and name of the object."""
        namespace = text(self.tree, "metadata", "namespace")
        name = text(self.tree, "metadata", "name")
        return f"{text(self.tree, 'kind')} {f'{namespace}/' if namespace else ''}{name}"


def cleaned(tree: Tree) -> dict[str, Any]:
    """An object without status and without the metadata that a server sets."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(tree))
    metadata = made.pop("metadata", {})
    made.pop("status", None)
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if metadata.get(key)}
    if annotations := {key: value for key, value in kept.pop("annotations", {}).items() if key not in DROPPED}:
        kept["annotations"] = annotations
    return {"apiVersion": made.pop("apiVersion"), "kind": made.pop("kind"), "metadata": kept, **made}


def job(tree: Tree) -> Moved:
    """A Job that waits on the cluster, too, until its queue admits it."""
    made = cleaned(tree)
    spec = made["spec"]
    if member(spec, "manualSelector") is not True:
        spec.pop("selector", None)
        spec.pop("manualSelector", None)
    spec["suspend"] = True
    template = spec.setdefault("template", {})
    metadata = template.get("metadata") or {}
    if metadata:
        kept = {
            "labels": {key: value for key, value in (metadata.get("labels") or {}).items() if key not in MADE_LABELS},
            "annotations": {
                key: value for key, value in (metadata.get("annotations") or {}).items() if key not in DROPPED
            },
        }
        template["metadata"] = {key: value for key, value in kept.items() if value}
    return Moved(made, list(problems(tree)))


def problems(tree: Tree) -> Iterator[str]:
    """What in a Job depends on this machine, each with what to do."""
    for _, owner in mappings(tree, "metadata", "ownerReferences"):
        yield f"belongs to {text(owner, 'kind')} {text(owner, 'name')}; move that instead, and delete this one"
    pod = mapping(tree, "spec", "template", "spec")
    for field in ("initContainers", "containers"):
        for index, container in mappings(pod, field):
            at = f"spec.template.spec.{field}[{index}]"
            yield from container_problems(container, at)
            # `pykueue run` copies these variables; in other Jobs a user wrote them.
            names = sorted({text(one, "name") for _, one in mappings(container, "env")} & OF_THE_MACHINE)
            if names and has(tree, "metadata", "annotations", Annotation.COMMAND):
                yield f"{at}.env: {', '.join(names)} have values of this machine; remove or change them"
    for index, volume in mappings(pod, "volumes"):
        at = f"spec.template.spec.volumes[{index}]"
        if has(volume, "hostPath"):
            yield (
                f"{at}.hostPath: {text(volume, 'hostPath', 'path')} is a path on this machine; use a volume of "
                "the cluster"
            )
        for kind, key in (("configMap", "name"), ("secret", "secretName")):
            if name := text(volume, kind, key):
                yield f"{at}.{kind}: {name} is not exported; create it on the cluster"
    ids = [key for key in ("runAsUser", "runAsGroup", "fsGroup") if has(pod, "securityContext", key)]
    if ids:
        yield f"spec.template.spec.securityContext: {', '.join(ids)} refer to accounts of this machine; check them"


def container_problems(container: Tree, at: str) -> Iterator[str]:
    """What in a container depends on this machine."""
    image = text(container, "image")
    if image in NO_IMAGES:
        yield f"{at}.image: {image!r} is not an image; specify one that contains the command"
    if folder := text(container, "workingDir"):
        yield f"{at}.workingDir: {folder} is a path on this machine; put its files into the image or a volume"
    for _, one in mappings(container, "envFrom"):
        for kind in ("configMapRef", "secretRef"):
            if name := text(one, kind, "name"):
                yield f"{at}.envFrom: {kind} {name} is not exported; create it on the cluster"


def waits(tree: Tree) -> bool:
    """Whether a Job is neither running nor ended."""
    return (
        end_of(tree) is None
        and member(tree, "spec", "suspend") is True
        and not has(tree, "metadata", "deletionTimestamp")
    )


def namespace(name: str) -> Moved:
    """A namespace."""
    return Moved({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, [])


def binding(user: str, within: str, *, admin: bool) -> Moved:
    """What gives a user of this machine the corresponding rights on a cluster."""
    role = ADMIN_ROLE if admin else USER_ROLE
    metadata = {"name": f"pykueue-{user.replace('_', '-')}"} | ({} if admin else {"namespace": within})
    tree = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding" if admin else "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    return Moved(tree, [f"subjects[0].name: {user} is an account of this machine; use the user name on the cluster"])


def lint(objects: Sequence[Moved]) -> list[str]:
    """A line for each thing that has to be changed by hand."""
    return [f"{one.where}: {problem}" for one in objects for problem in one.problems]
