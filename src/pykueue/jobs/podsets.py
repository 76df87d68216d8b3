"""Pod sets of a job: built from templates, injected with what an admission adds, restored, and compared."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from pykueue.api.core import Json, Toleration, Tree
from pykueue.api.kueue import ResourceFlavor
from pykueue.api.labels import dns_label
from pykueue.api.names import Annotation, Label
from pykueue.api.pods import without_nulls
from pykueue.api.workload import Admission, PodSetAssignment, PodSetUpdate, Workload
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import QuantityError, parse_quantity

CONFLICT: Final = "invalid admission check PodSetUpdate: conflict for {what}: conflict for key={key}, "
VALUES: Final = "value1={first}, value2={second}"
SHAPES_KEPT: Final = 512
"""How many templates are remembered; the reconciles of a job compare the same ones again and again."""
CONTAINER_LISTS: Final = ("containers", "initContainers")
POD_NEEDS: Final = ("resources", "resourceClaims", "overhead", "runtimeClassName")
"""Pod-level fields that decide how much a pod requests."""
AMOUNTS: Final = ("requests", "limits", "overhead")
"""Fields that hold quantities by resource."""
SERVER_DEFAULTS: Final[Mapping[str, Json]] = {
    "failureThreshold": 3,
    "periodSeconds": 10,
    "protocol": "TCP",
    "scheme": "HTTP",
    "successThreshold": 1,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
}
"""Container fields that the API server defaults in a Job, but not in a Workload made by another client."""
TAG: Final = re.compile(r"(?:.*/)?[^/:@]+(?::([^/@]+))?(@.*)?")
"""The tag and digest of an image."""


class InjectionError(ValueError):
    """The admission cannot be injected into the pods, however often it is tried."""


class MissingFlavorError(LookupError):
    """A ResourceFlavor that pods were admitted to does not exist at present."""


class Info(Frozen):
    """What is injected into the pods of one pod set when they start."""

    name: str = ""
    count: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Tree, ...] = ()
    gates: tuple[Tree, ...] = ()


class Undecoded(Wire):
    """A pod template of which only the spec is read, and that undecoded."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


SPEC: Final = msgspec.json.Decoder(Undecoded)


class Injection(Frozen):
    """Which optional things are injected."""

    queue_labels: bool = True
    """The names of their queues: the gate AssignQueueLabelsForPods."""
    workload: bool = True
    """The name of their Workload: the gate TopologyAwareScheduling.

    With it, the Workload also names the label that numbers its pods.
    """


# Building pod sets.


def pod_set(name: str, template: Tree, count: int, min_count: int | None = None) -> Tree:
    """A pod set of a Workload; absent fields and overridden environment variables are removed from its template."""
    whole = without_nulls(template)
    assert isinstance(whole, dict), "a mapping without its nulls is a mapping"
    found: Tree = {"name": name, "count": count, "template": sanitized(whole)}
    if min_count is not None:
        found["minCount"] = min_count
    return found


def sanitized(template: Tree) -> Tree:
    """The template with each environment variable once, at its first position with its last value."""
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return template
    changed: Tree = {}
    for name in CONTAINER_LISTS:
        containers = spec.get(name)
        if isinstance(containers, list) and any(repeats(one) for one in containers):
            changed[name] = [with_each_once(one) for one in containers]
    return {**template, "spec": {**spec, **changed}} if changed else template


def repeats(container: Json) -> bool:
    """Whether a container sets an environment variable twice."""
    names = [variable_name(one) for one in variables(container)]
    return len(set(names)) < len(names)


def variables(container: Json) -> list[Json]:
    """The environment variables of a container."""
    found = container.get("env") if isinstance(container, dict) else None
    return found if isinstance(found, list) else []


def variable_name(variable: Json) -> str:
    """The name of an environment variable."""
    name = variable.get("name") if isinstance(variable, dict) else None
    return name if isinstance(name, str) else ""


def with_each_once(container: Json) -> Json:
    """The container with each environment variable once."""
    if not isinstance(container, dict) or not repeats(container):
        return container
    return {**container, "env": list({variable_name(one): one for one in variables(container)}.values())}


def info_of_template(template: Tree) -> Info:
    """What a template itself specifies."""
    metadata, spec = part(template, "metadata"), part(template, "spec")
    return Info(
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        node_selector=texts(spec.get("nodeSelector")),
        tolerations=trees(spec.get("tolerations")),
        gates=trees(spec.get("schedulingGates")),
    )


@lru_cache(maxsize=SHAPES_KEPT)
def info_of(raw: bytes) -> Info:
    """What an undecoded template itself specifies; the result is shared and must not be changed."""
    return info_of_template(template_tree(raw))


def part(tree: Tree, name: str) -> Tree:
    """A member of a tree that is an object; empty if there is none."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def texts(value: Json) -> dict[str, str]:
    """A map of texts."""
    return {key: one for key, one in value.items() if isinstance(one, str)} if isinstance(value, dict) else {}


def trees(value: Json) -> tuple[Tree, ...]:
    """The objects in a list."""
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def template_tree(raw: bytes | msgspec.Raw) -> Tree:
    """A template decoded into a new tree."""
    found = msgspec.json.decode(raw)
    return found if isinstance(found, dict) else {}


# Injection.


def merged(first: Info, second: Info) -> Info:
    """The first with the additions of the second; raises `InjectionError` if they contradict."""
    if conflict := conflict_of(first, second):
        raise InjectionError(conflict)
    return Info(
        first.name,
        first.count,
        {**first.labels, **second.labels},
        {**first.annotations, **second.annotations},
        {**first.node_selector, **second.node_selector},
        first.tolerations + added(first.tolerations, second.tolerations, same_toleration),
        first.gates + added(first.gates, second.gates, Tree.__eq__),
    )


def conflict_of(first: Info, second: Info) -> str:
    """Kueue's message for the first contradiction between two; empty if they agree."""
    for what, ours, theirs in (
        ("annotations", first.annotations, second.annotations),
        ("labels", first.labels, second.labels),
        ("nodeSelector", first.node_selector, second.node_selector),
    ):
        for key in sorted(ours.keys() & theirs.keys()):
            if ours[key] != theirs[key]:
                return (CONFLICT + VALUES).format(what=what, key=key, first=ours[key], second=theirs[key])
    return ""


def added(there: Sequence[Tree], more: Sequence[Tree], same: Callable[[Tree, Tree], bool]) -> tuple[Tree, ...]:
    """Items of the second list that the first lacks, without duplicates."""
    found: list[Tree] = []
    for one in more:
        if not any(same(one, other) for other in (*there, *found)):
            found.append(one)
    return tuple(found)


def same_toleration(first: Tree, second: Tree) -> bool:
    """Whether two tolerations mean the same."""
    return toleration_key(first) == toleration_key(second)


def toleration_key(seen: Tree) -> tuple[Json, ...]:
    """A toleration in normal form, for comparison."""
    return (
        seen.get("key") or "",
        seen.get("operator") or "Equal",
        seen.get("value") or "",
        seen.get("effect") or "",
        seen.get("tolerationSeconds"),
    )


def toleration_tree(seen: Toleration) -> Tree:
    """A toleration as a pod template has it."""
    found: Tree = msgspec.to_builtins(seen)
    return {key: value for key, value in found.items() if value is not None}


def injected(workload: Workload, flavors: Mapping[str, ResourceFlavor], chosen: Injection) -> tuple[Info, ...]:
    """What each pod set of an admitted Workload gets from its flavors, queues and checks.

    Raises `MissingFlavorError` for a flavor that does not exist, and `InjectionError` if checks contradict.
    """
    admission = workload.status.admission
    if admission is None:
        return ()
    counts = {one.name: one.count for one in workload.spec.pod_sets}
    return tuple(
        injected_into(workload, admission, one, counts.get(one.name, 0), flavors, chosen)
        for one in admission.pod_set_assignments
    )


def injected_into(
    workload: Workload,
    admission: Admission,
    given: PodSetAssignment,
    count: int,
    flavors: Mapping[str, ResourceFlavor],
    chosen: Injection,
) -> Info:
    """What one pod set gets."""
    labels: dict[str, str] = {Label.POD_SET: given.name}
    if Label.MULTIKUEUE_ORIGIN in workload.metadata.labels:
        labels[Label.MULTIKUEUE_WORKER_POD] = "true"
    queue = admission.cluster_queue or ""
    if chosen.queue_labels:
        labels[Label.LOCAL_QUEUE] = workload.spec.queue_name or ""
        if not dns_label(queue):
            labels[Label.CLUSTER_QUEUE] = queue
    annotations: dict[str, str] = {Annotation.WORKLOAD: workload.name} if chosen.workload else {}
    found = msgspec.structs.replace(by_flavors(given, count, flavors), labels=labels, annotations=annotations)
    for check in workload.status.admission_checks:
        update = next((one for one in check.pod_set_updates if one.name == given.name), None)
        if update is not None:
            try:
                found = merged(found, info_of_update(update))
            except InjectionError as error:
                raise InjectionError(f'in admission check "{check.name}": {error}') from error
    return found


def by_flavors(given: PodSetAssignment, count: int, flavors: Mapping[str, ResourceFlavor]) -> Info:
    """How many pods a pod set has, and the node selectors and tolerations of its flavors."""
    selector: dict[str, str] = {}
    tolerations: list[Tree] = []
    for name in dict.fromkeys(flavor for _, flavor in sorted(given.flavors.items())):
        flavor = flavors.get(name)
        if flavor is None:
            raise MissingFlavorError(name)
        selector.update(flavor.spec.node_labels)
        tolerations += (toleration_tree(one) for one in flavor.spec.tolerations)
    return Info(
        given.name,
        count if given.count is None else given.count,
        node_selector=selector,
        tolerations=tuple(tolerations),
    )


def info_of_update(update: PodSetUpdate) -> Info:
    """What a check adds to pods."""
    return Info(
        update.name,
        0,
        update.labels,
        update.annotations,
        update.node_selector,
        tuple(toleration_tree(one) for one in update.tolerations),
    )


def fill_in(template: Tree, info: Info) -> Tree:
    """The merge patch that injects what pods need to start; empty if the template has it all."""
    has = info_of_template(template)
    wanted = merged(has, info)
    return template_patch(has, wanted)


def filled_in(template: Tree, original: Tree) -> bool:
    """Whether a template still has what was injected."""
    has, had = (info_of_template(one).labels for one in (template, original))
    return Label.POD_SET in has and Label.POD_SET not in had


def put_back(template: Tree, original: Tree, kept: frozenset[str]) -> Tree:
    """The merge patch that restores the original template, except for labels that are kept."""
    has, wanted = info_of_template(template), info_of_template(original)
    labels = {**wanted.labels, **{key: text for key, text in has.labels.items() if key in kept}}
    return template_patch(has, msgspec.structs.replace(wanted, labels=labels))


def template_patch(has: Info, wanted: Info) -> Tree:
    """The merge patch that takes a template from one state to another."""
    metadata: Tree = {
        name: change
        for name, change in (
            ("labels", map_patch(has.labels, wanted.labels)),
            ("annotations", map_patch(has.annotations, wanted.annotations)),
        )
        if change
    }
    spec: Tree = {}
    if selector := map_patch(has.node_selector, wanted.node_selector):
        spec["nodeSelector"] = selector
    if has.tolerations != wanted.tolerations:
        spec["tolerations"] = list(wanted.tolerations) or None
    if has.gates != wanted.gates:
        spec["schedulingGates"] = list(wanted.gates) or None
    return {name: change for name, change in (("metadata", metadata), ("spec", spec)) if change}


def map_patch(has: Mapping[str, str], wanted: Mapping[str, str]) -> Tree:
    """The merge patch that makes one map the other."""
    gone: Tree = {key: None for key in has if key not in wanted}
    return {**gone, **{key: text for key, text in wanted.items() if has.get(key) != text}}


# Comparison.


class Shape(Frozen):
    """The parts of a pod set that must match; the rest may change."""

    count: int
    min_count: int | None
    needs: bytes
    """The containers, and everything else in the template that decides how much quota a pod takes."""
    tolerations: bytes


def shapes_of(workload: Workload) -> tuple[Shape, ...]:
    """The shapes of a Workload's pod sets as they stand in it."""
    return tuple(Shape(one.count, one.min_count, *looks(bytes(one.template))) for one in workload.spec.pod_sets)


def running_shapes(workload: Workload, infos: Sequence[Info]) -> tuple[Shape, ...] | None:
    """The shapes that the pod sets have while they run; None if they cannot run like that."""
    given = {info.name: info for info in infos}
    partial = any(one.min_count is not None for one in workload.spec.pod_sets)
    found: list[Shape] = []
    for one in workload.spec.pod_sets:
        info = given.get(one.name)
        if info is None:
            return None
        raw = bytes(one.template)
        has = info_of(raw)
        if conflict_of(has, info):
            return None
        needs, _ = looks(raw)
        count = info.count if partial and one.min_count is not None else one.count
        both = has.tolerations + added(has.tolerations, info.tolerations, same_toleration)
        found.append(Shape(count, one.min_count, needs, tolerations_text(both)))
    return tuple(found)


def same_shapes(first: Sequence[Shape], second: Sequence[Shape], *, tolerations: bool) -> bool:
    """Whether pod sets match one by one, on request without tolerations."""
    return len(first) == len(second) and all(
        (one.count, one.min_count, one.needs) == (other.count, other.min_count, other.needs)
        and (not tolerations or one.tolerations == other.tolerations)
        for one, other in zip(first, second, strict=True)
    )


def looks(raw: bytes) -> tuple[bytes, bytes]:
    """What the pods of a template need, and their tolerations, each in normal form."""
    try:
        spec = bytes(SPEC.decode(raw).spec)
    except msgspec.ValidationError:
        spec = b"{}"
    return looks_of_spec(spec)


@lru_cache(maxsize=SHAPES_KEPT)
def looks_of_spec(raw: bytes) -> tuple[bytes, bytes]:
    """The same by the spec of a template: its labels are other ones for each job, while many jobs share a spec."""
    spec = part(sanitized({"spec": template_tree(raw)}), "spec")
    needs: list[Json] = [[plain_container(one) for one in trees(spec.get(name))] for name in CONTAINER_LISTS]
    needs.append({name: plain(spec.get(name), name) or None for name in POD_NEEDS})
    return spelled(needs), tolerations_text(trees(spec.get("tolerations")))


def tolerations_text(seen: Sequence[Tree]) -> bytes:
    """Tolerations in normal form."""
    return spelled([list(toleration_key(one)) for one in seen])


def spelled(value: Json) -> bytes:
    """A value as JSON with sorted keys."""
    return msgspec.json.encode(value, order="deterministic")


def plain_container(container: Tree) -> Json:
    """A container without the fields that the server defaults."""
    image = container.get("image")
    if container.get("imagePullPolicy") == pull_policy(image if isinstance(image, str) else ""):
        container = {key: value for key, value in container.items() if key != "imagePullPolicy"}
    return plain(container)


def pull_policy(image: str) -> str:
    """The default pull policy of an image."""
    found = TAG.fullmatch(image)
    tag, digest = (found[1], found[2]) if found else (None, None)
    return "Always" if tag == "latest" or (tag is None and digest is None) else "IfNotPresent"


def plain(value: Json, name: str = "") -> Json:
    """A value without absent, empty and defaulted members, and with quantities in canonical spelling."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if name in AMOUNTS:
        return {key: amount(one) for key, one in value.items()}
    found = {key: plain(one, key) for key, one in value.items() if not is_default(name, key, one)}
    return {key: one for key, one in found.items() if one is not None and one != "" and one != [] and one != {}}


def is_default(name: str, key: str, value: Json) -> bool:
    """Whether a member has the server's default value."""
    if name == "fieldRef" and key == "apiVersion":
        return value == "v1"
    return key in SERVER_DEFAULTS and not isinstance(value, bool) and SERVER_DEFAULTS[key] == value


def amount(value: Json) -> Json:
    """A quantity in canonical spelling; anything else unchanged."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return str(parse_quantity(str(value)).nanos)
    except QuantityError:
        return value
