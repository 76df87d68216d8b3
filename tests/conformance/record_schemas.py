"""Where do the schemas of the built-in kinds come from? From a real kube-apiserver, written down by this program.

    python -m tests.conformance.record_schemas            # starts one, asks it, writes apiserver/schema/openapi
    python -m tests.conformance.record_schemas FOLDER     # reads the `*_openapi.json` files of a source tree instead

Definitions are kept as the server gives them, less their descriptions, in one file for each Go package; references
between them stay references, since some are recursive. `index.json` says which definition a kind has. The descriptions
are in files of their own, which only `kubectl explain` needs.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.plane.plane import ROOT, Plane

SCHEMA = ROOT / "src" / "pykueue" / "apiserver" / "schema"
TARGET, WORDS = SCHEMA / "openapi", SCHEMA / "descriptions"
REF = "#/components/schemas/"

KINDS = {
    "v1": (
        "Binding",
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "admissionregistration.k8s.io/v1": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "authentication.k8s.io/v1": ("SelfSubjectReview", "TokenRequest", "TokenReview"),
    "authorization.k8s.io/v1": (
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
    ),
    "autoscaling/v1": ("Scale",),
    "batch/v1": ("Job",),
    "coordination.k8s.io/v1": ("Lease",),
    "events.k8s.io/v1": ("Event",),
    "node.k8s.io/v1": ("RuntimeClass",),
    "policy/v1": ("Eviction", "PodDisruptionBudget"),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
}


def main(folder: str = "") -> None:
    """Write the schemas, as a server that runs gives them or as a source tree holds them."""
    if folder:
        specs = {version: json.loads(Path(folder, filename(version)).read_text()) for version in KINDS}
    else:
        with Plane.start(pods=False) as plane:
            specs = {version: plane.client.request("GET", f"/openapi/v3/{path_of(version)}") for version in KINDS}
    write(TARGET, WORDS, specs)


def path_of(version: str) -> str:
    """Where a group version is served."""
    return f"apis/{version}" if "/" in version else f"api/{version}"


def filename(version: str) -> str:
    """The file of a group version in the source tree of Kubernetes."""
    return path_of(version).replace("/", "__") + "_openapi.json"


def write(target: Path, words: Path, specs: dict[str, Any]) -> None:
    """Write the definitions that our kinds need to files by package, their descriptions likewise, and the index."""
    # A kind of one group may be defined with another that uses it: Scale and Eviction are with the pods.
    known = {name: one for spec in specs.values() for name, one in spec["components"]["schemas"].items()}
    index = {version: dict(roots(version, known)) for version in KINDS}
    packages: dict[str, dict[str, Any]] = {}
    described: dict[str, dict[str, dict[str, str]]] = {}
    for name in reached((name for kinds in index.values() for name in kinds.values()), known):
        package, _, short = name.rpartition(".")
        packages.setdefault(package, {})[short] = bare(known[name])
        described.setdefault(package, {})[short] = descriptions(known[name])
    for folder, contents in ((target, {**packages, "index": index}), (words, described)):
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.json"):
            old.unlink()
        for filename, content in contents.items():
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            (folder / f"{filename}.json").write_text(text + "\n")


def descriptions(schema: dict[str, Any]) -> dict[str, str]:
    """The description of a definition, under an empty name, and of each of its properties."""
    found = {"": schema.get("description", "")}
    found |= {name: one.get("description", "") for name, one in schema.get("properties", {}).items()}
    return {name: words for name, words in found.items() if words}


def roots(version: str, known: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each kind of a group version, with the name of its definition."""
    group, _, short = version.rpartition("/")
    for kind in KINDS[version]:
        wanted = {"group": group, "kind": kind, "version": short}
        yield (
            kind,
            next(name for name, one in known.items() if wanted in one.get("x-kubernetes-group-version-kind", ())),
        )


def reached(names: Iterable[str], known: dict[str, Any]) -> set[str]:
    """The definitions that can be reached from these."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(references(known[name]))
    return found


def references(node: object) -> Iterator[str]:
    """The definitions that a schema refers to."""
    if isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str):
            yield ref.removeprefix(REF)
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


def bare(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without its descriptions; a property may well be called so."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: bare(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            kept[key] = bare(value)
        elif key in ("allOf", "anyOf", "oneOf"):
            kept[key] = [bare(inner) for inner in value]
        elif key != "description":
            kept[key] = value
    return kept


if __name__ == "__main__":
    main(*sys.argv[1:])
