"""Checks of versions, Configurations, CustomResourceDefinitions, webhooks and clocks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pykueue.api.config.gatetable import OURS
from pykueue.api.convert import V1BETA1, V1BETA2, to_v1beta2
from pykueue.api.core import Tree
from pykueue.api.install.crds import crd
from pykueue.api.install.install import Install
from pykueue.api.install.webhooks import mutating, validating
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP
from pykueue.api.trees import Tree as AnyTree
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, format_instant, parse_instant
from pykueue.bridge.unbuilt import idle, unbuilt
from pykueue.cli.doctor.inventory import Found, Inventory, Severity, listed, of_rule

APART: Final = 5 * MICROS
"""Clocks differ by more than what a response takes."""
SILENT: Final = 60 * MICROS
"""A manager that has not renewed its Lease for this long is gone."""
OWN_GATES: Final = tuple(gate.name for gate in OURS)
FIELDS_DEEP: Final = 3
"""How many levels of a definition's fields are compared."""


def invalid_object(inventory: Inventory) -> Iterator[Found]:
    """Objects that an API server refuses."""
    yield from of_rule(inventory, "invalid-object", "correct the field; an API server rejects the object")


def deprecated_version(inventory: Inventory) -> Iterator[Found]:
    """Objects that are written in v1beta1, equal ones as one finding, and definitions that still store it."""
    alike: dict[tuple[str, str], list[str]] = {}
    for kind, each in inventory.objects.items():
        for one in each:
            tree = one.document.tree
            writers = [
                text(entry, "manager")
                for _, entry in mappings(tree, "metadata", "managedFields")
                if text(entry, "apiVersion") == V1BETA1 and not text(entry, "subresource")
            ]
            if tree.get("apiVersion") == V1BETA1:
                said = f"is written in {V1BETA1}, which is deprecated", migration(tree)
            elif writers:
                who = listed(sorted(set(writers)))
                said = f"{who} writes it in {V1BETA1}, which is deprecated", f"change what {who} applies to {V1BETA2}"
            else:
                continue
            alike.setdefault(said, []).append(f"{kind} {one.key}")
    for (message, remedy), names in alike.items():
        rest = f" (also: {listed(names[1:])})" if len(names) > 1 else ""
        yield Found(names[0], f"{message}{rest}", remedy)
    for definition in inventory.installation.definitions:
        if "v1beta1" in items(definition, "status", "storedVersions"):
            yield Found(
                f"CustomResourceDefinition {text(definition, 'metadata', 'name')}",
                "may still store objects as v1beta1, which Kueue 0.20 no longer reads",
                "rewrite all objects of this kind, then remove v1beta1 from status.storedVersions",
                Severity.NOTE,
            )


def migration(tree: Tree) -> str:
    """How to write an object in v1beta2."""
    old, new = mapping(tree, "spec"), mapping(to_v1beta2(tree), "spec")
    gone, come = [one for one in old if one not in new], [one for one in new if one not in old]
    changed = f" and replace spec.{', spec.'.join(gone)}" if gone else ""
    by = f" by spec.{', spec.'.join(come)}" if gone and come else ""
    return f"write {V1BETA2}{changed}{by}"


def feature_unsupported(inventory: Inventory) -> Iterator[Found]:
    """Objects that use features of Kueue that pykueue lacks."""
    fair_sharing, past_use = inventory.shares_fairly, inventory.counts_past_use
    for kind, each in inventory.objects.items():
        for one in each:
            view = one.view if isinstance(one.view, Workload) else one.tree
            for said in unbuilt(kind, view):
                yield Found(f"{kind} {one.key}", f"pykueue: {said}", "remove the field, or keep Kueue for this queue")
            for said in idle(kind, view, fair_sharing=fair_sharing, past_use=past_use):
                yield Found(f"{kind} {one.key}", said, "correct or remove it, or ignore this note", Severity.NOTE)


def configuration_invalid(inventory: Inventory) -> Iterator[Found]:
    """Configurations with which the manager does not start."""
    for one in inventory.configurations:
        for said in one.mistakes:
            yield Found("Configuration", said, "correct it: `pykueue manager` does not start with it", where=one.where)


class Difference(Frozen):
    """A setting that means something else here than in Kueue."""

    applies: Callable[[Tree], bool]
    sentence: str


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "clientConnection.qps": Difference(
        lambda tree: member(tree, "clientConnection", "qps") == 0,
        "0 means no limit in pykueue; in Kueue no requests are sent after the first `burst`",
    ),
    "clientConnection.burst": Difference(
        lambda tree: (burst := whole(tree, "clientConnection", "burst")) is not None and burst < 1,
        "less than 1 means 1 in pykueue; in Kueue no requests are sent at all",
    ),
    "webhook.port": Difference(
        lambda tree: member(tree, "webhook", "port") == 0, "0 selects a free port in pykueue; in Kueue it means 9443"
    ),
    "featureGates": Difference(
        lambda tree: any(name in OWN_GATES for name in mapping(tree, "featureGates")),
        f"{', '.join(OWN_GATES)} exist only in pykueue; Kueue does not start with them",
    ),
}
"""By path; docs/differences.md has the reasons."""


def configuration_differs(inventory: Inventory) -> Iterator[Found]:
    """Settings without effect here, or with another one than in Kueue."""
    for one in inventory.configurations:
        said = [*(() if one.loaded is None else one.loaded.warnings)]
        said += [f"{path}: {row.sentence}" for path, row in DIFFERENCES.items() if row.applies(one.tree)]
        for sentence in said:
            yield Found("Configuration", sentence, "see docs/differences.md, and change the setting", where=one.where)


def manager_absent(inventory: Inventory) -> Iterator[Found]:
    """No manager acts: its Lease is old, or it has not seen a queue."""
    installed = inventory.installation
    now = installed.there or installed.here
    lease = installed.lease
    renewed = instant_in(lease, "spec", "renewTime")
    if lease is not None and (renewed is None or now - renewed > SILENT):
        since = "never renewed" if renewed is None else f"last renewed at {format_instant(renewed)}"
        yield Found(
            f"Lease {text(lease, 'metadata', 'namespace')}/{text(lease, 'metadata', 'name')}",
            f"was {since}: no manager is running, so no workload is admitted",
            "start `pykueue manager`, and check the logs of its pods",
        )
        return
    for one in inventory.objects.get("ClusterQueue", ()):
        created = instant_in(one.tree, "metadata", "creationTimestamp")
        seen = [each for _, each in mappings(one.tree, "status", "conditions") if text(each, "type") == "Active"]
        if not seen and created is not None and now - created > SILENT:
            yield Found(
                f"ClusterQueue {one.name}",
                "has no status although it is more than a minute old: no manager is running",
                "start `pykueue manager`, and check the logs of its pods",
            )


def instant_in(tree: Tree | None, *path: str) -> Instant | None:
    """The timestamp at this path; None if there is none."""
    try:
        return parse_instant(text(tree, *path))
    except (ValueError, OverflowError):
        return None


def clocks_apart(inventory: Inventory) -> Iterator[Found]:
    """This machine, the server and the manager disagree about the time."""
    installed = inventory.installation
    if installed.there is None:
        return
    ahead = installed.here - installed.there
    # The header has whole seconds.
    if abs(ahead) > APART + MICROS:
        word = "ahead of" if ahead > 0 else "behind"
        yield Found(
            "this machine",
            f"its clock is {abs(ahead) // MICROS} s {word} the server's: ages and time limits are displayed "
            "incorrectly",
            "synchronize both clocks, for example with chrony",
        )
    renewed = instant_in(installed.lease, "spec", "renewTime")
    if installed.lease is not None and renewed is not None and renewed - installed.there > APART + MICROS:
        yield Found(
            f"Lease {text(installed.lease, 'metadata', 'namespace')}/{text(installed.lease, 'metadata', 'name')}",
            f"the manager's clock is {(renewed - installed.there) // MICROS} s ahead of the server's: timeouts, "
            "backoffs and leader election may fail",
            "synchronize the clocks of the manager's node and of the control plane",
        )


def crds_differ(inventory: Inventory) -> Iterator[Found]:
    """CustomResourceDefinitions that are not those of this version."""
    found = {text(one, "spec", "names", "kind"): one for one in inventory.installation.definitions}
    for name, kind in KINDS.items():
        if kind.group != GROUP:
            continue
        who, stored = f"CustomResourceDefinition {kind.plural}.{GROUP}", kind.versions[0]
        if name not in found:
            yield Found(who, "does not exist", "apply the manifests again: `pykueue manifests`")
            continue
        served = [
            one
            for _, one in mappings(found[name], "spec", "versions")
            if text(one, "name") == stored and one.get("served") is True
        ]
        if not served:
            yield Found(who, f"does not serve {stored}", "apply the manifests again: `pykueue manifests`")
            continue
        ours = next(one for _, one in mappings(crd(kind), "spec", "versions") if text(one, "name") == stored)
        missing = sorted(fields(mapping(ours, *SCHEMA)) - fields(mapping(served[0], *SCHEMA)))
        if missing:
            yield Found(
                who,
                f"does not match this version of pykueue: it lacks {listed(missing)}, which the server drops",
                "apply the manifests again: `pykueue manifests`",
                Severity.WARNING,
            )


SCHEMA: Final = ("schema", "openAPIV3Schema")


def fields(schema: AnyTree, path: str = "", deep: int = FIELDS_DEEP) -> set[str]:
    """The paths of the fields of a schema, a few levels deep, without those of metadata and templates."""
    found: set[str] = set()
    for name, below in mapping(schema, "properties").items():
        place = f"{path}.{name}" if path else name
        found.add(place)
        if deep > 1 and name not in ("metadata", "template"):
            inner = mapping(below, "items") or mapping(below)
            found |= fields(inner, place, deep - 1)
    return found


def webhooks_differ(inventory: Inventory) -> Iterator[Found]:
    """Webhooks that are not those of this version."""
    wanted = {text(one, "name"): one for one in (*mutating(Install()), *validating(Install()))}
    there = {
        text(hook, "name"): (text(one, "metadata", "name"), hook)
        for one in inventory.installation.webhooks
        for _, hook in mappings(one, "webhooks")
    }
    for name, ours in wanted.items():
        if not any(items(rule, "apiGroups") == [GROUP] for _, rule in mappings(ours, "rules")):
            continue
        if name not in there:
            yield Found(f"webhook {name}", "is not registered", "apply the manifests again: `pykueue manifests`")
            continue
        holder, theirs = there[name]
        if versions_of(ours) != versions_of(theirs) or path_of(ours) != path_of(theirs):
            yield Found(
                f"webhook {name}",
                f"in {holder} is registered for {listed(sorted(versions_of(theirs)))} at "
                f"{path_of(theirs) or 'another address'}; "
                f"this version expects {listed(sorted(versions_of(ours)))} at {path_of(ours)}",
                "apply the manifests again: `pykueue manifests`",
            )


def versions_of(hook: AnyTree) -> set[str]:
    """The API versions for which a webhook is called."""
    return {str(one) for _, rule in mappings(hook, "rules") for one in items(rule, "apiVersions")}


def path_of(hook: AnyTree) -> str:
    """The path at which a webhook is called."""
    return text(hook, "clientConfig", "service", "path")
