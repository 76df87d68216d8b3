"""Admission by other objects: the namespace, LimitRanges, PriorityClasses and RuntimeClasses."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.trees import amount, mapping, mappings, member, text, whole
from pykueue.apiserver.kinds.metadata import meta, with_meta
from pykueue.apiserver.kinds.poddefaults import as_list, as_tree, each
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.storage.store import Key, Store
from pykueue.apiserver.wire.statuserrors import forbidden, not_found
from pykueue.base.units import Quantity
from pykueue.kube.port import PODS, PRIORITY_CLASSES, RUNTIME_CLASSES, Resource

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace")
LIMITED: Final = "kubernetes.io/limit-ranger"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS: Final = 300
RANGES: Final = "limitranges"
CLASSES: Final = str(PRIORITY_CLASSES)
CONTAINER_LISTS: Final = (("containers", "container"), ("initContainers", "init container"))


class Plugins:
    """Mutates and validates new objects according to other objects, which are cached until they change."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ranges: dict[str, list[Tree]] = {}
        """The LimitRanges of a namespace."""
        self.classes: dict[str, Tree] | None = None
        """The PriorityClasses."""
        self.namespaces: dict[str, tuple[int, bool]] = {}
        """The version of a namespace as last read, and whether it is being deleted."""
        self.completing: dict[str, Callable[[Served, Tree, str], Tree]] = {
            str(PODS): self.complete_pod,
            CLASSES: self.check_class,
        }
        """By storage name: mutates or refuses a new object, given its namespace."""
        self.checking: dict[str, Callable[[Served, Tree, str], None]] = {str(PODS): self.check_pod}
        """By storage name: refuses a new object that is complete and valid."""

    def forget(self, key: Key) -> None:
        """Drop the cache of an object that has changed."""
        if key.resource == RANGES:
            self.ranges.pop(key.namespace, None)
        elif key.resource == CLASSES:
            self.classes = None

    def complete(self, served: Served, tree: Tree, namespace: str) -> Tree:
        """A new object with what other objects fill in; raises `StatusError` if they forbid it."""
        complete = self.completing.get(served.storage)
        return tree if complete is None else complete(served, tree, namespace)

    def check(self, served: Served, tree: Tree, namespace: str) -> None:
        """Refuse a new object that other objects forbid in its final form."""
        check = self.checking.get(served.storage)
        if check is not None:
            check(served, tree, namespace)

    def check_namespace(self, served: Served, namespace: str, name: str) -> None:
        """Refuse to create an object in a namespace that does not exist or is being deleted."""
        held = self.store.latest(Key("namespaces", "", namespace))
        if held is None:
            self.namespaces.pop(namespace, None)
            raise not_found(NAMESPACES, namespace)
        known = self.namespaces.get(namespace)
        if known is None or known[0] != held.version:
            tree: Tree = msgspec.json.decode(held.body)
            known = self.namespaces[namespace] = held.version, text(tree, "status", "phase") == "Terminating"
        if known[1]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            refused = forbidden(served.resource, name, why)
            refused.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refused

    def complete_pod(self, served: Served, pod: Tree, namespace: str) -> Tree:
        """A new pod with limits, priority, overhead and tolerations; a `StatusError` if its classes forbid it."""
        pod = limited(pod, self.limits_in(namespace))
        spec = {**as_tree(pod.get("spec"))}
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
        self.set_priority(served, pod, spec)
        spec["tolerations"] = tolerating(spec.get("tolerations"))
        self.set_runtime(served, pod, spec)
        return {**pod, "spec": spec}

    def check_pod(self, served: Served, pod: Tree, namespace: str) -> None:
        """Refuse a new pod that a LimitRange forbids."""
        for limits in self.limits_in(namespace):
            found = [*range_errors(pod, limits)]
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                raise forbidden(served.resource, text(pod, "metadata", "name"), why)

    def limits_in(self, namespace: str) -> list[Tree]:
        """The LimitRanges of a namespace."""
        known = self.ranges.get(namespace)
        if known is None:
            page = self.store.page(RANGES, namespace)
            known = self.ranges[namespace] = [msgspec.json.decode(held.body) for held in page]
        return known

    def priority_classes(self) -> dict[str, Tree]:
        """The PriorityClasses by name."""
        if self.classes is None:
            page = self.store.page(CLASSES)
            self.classes = {held.key.name: msgspec.json.decode(held.body) for held in page}
        return self.classes

    def set_priority(self, served: Served, pod: Tree, spec: Tree) -> None:
        """Set the priority of a pod from its class, or from the global default class."""
        name, given = text(spec, "priorityClassName"), whole(spec, "priority")
        value, policy = 0, "PreemptLowerPriority"
        known: Tree | None
        if name:
            known = self.priority_classes().get(name)
            if known is None:
                raise refused_pod(served, pod, f"no PriorityClass with name {name} was found")
        else:
            everyones = [one for one in self.priority_classes().values() if one.get("globalDefault") is True]
            known = min(everyones, key=lambda one: whole(one, "value") or 0, default=None)
        if known is not None:
            spec["priorityClassName"] = text(known, "metadata", "name")
            value, policy = whole(known, "value") or 0, text(known, "preemptionPolicy") or policy
        if given is not None and given != value:
            why = (
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {value} from the given PriorityClass name"
            )
            raise refused_pod(served, pod, why)
        spec["priority"] = value
        asked = text(spec, "preemptionPolicy")
        if asked and asked != policy:
            why = (
                f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name"
            )
            raise refused_pod(served, pod, why)
        spec["preemptionPolicy"] = policy

    def set_runtime(self, served: Served, pod: Tree, spec: Tree) -> None:
        """Set the overhead of a pod from its RuntimeClass."""
        name = text(spec, "runtimeClassName")
        if not name:
            return
        held = self.store.latest(Key(str(RUNTIME_CLASSES), "", name))
        if held is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise refused_pod(served, pod, why)
        overhead = member(msgspec.json.decode(held.body), "overhead", "podFixed")
        given = spec.get("overhead")
        if given is not None and given != overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise refused_pod(served, pod, why)
        if isinstance(overhead, Mapping):
            spec["overhead"] = {**overhead}

    def check_class(self, served: Served, tree: Tree, namespace: str) -> Tree:
        """The PriorityClass; raises `StatusError` if it would be a second global default."""
        if tree.get("globalDefault") is not True:
            return tree
        name = text(tree, "metadata", "name")
        for other, known in self.priority_classes().items():
            if known.get("globalDefault") is True and other != name:
                why = f"PriorityClass {other} is already marked as default. Only one default can exist"
                raise forbidden(served.resource, name, why)
        return tree


def refused_pod(served: Served, pod: Tree, why: str) -> Exception:
    """The 403 error for a pod."""
    return forbidden(served.resource, text(pod, "metadata", "name"), why)


def tolerating(given: Json) -> list[Json]:
    """The tolerations with the default ones."""
    found = [*given] if isinstance(given, list) else []
    for key in (NOT_READY, UNREACHABLE):
        if not any(covers(one, key) for one in found):
            found.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
            )
    return found


def covers(toleration: Json, key: str) -> bool:
    """Whether a toleration matches this NoExecute taint."""
    return text(toleration, "key") in ("", key) and text(toleration, "effect") in ("", "NoExecute")


def limited(pod: Tree, ranges: Iterable[Tree]) -> Tree:
    """A pod with the default requests and limits of the LimitRanges."""
    for limits in ranges:
        asked: Tree = {}
        most: Tree = {}
        for one in map(as_tree, as_list(as_tree(limits.get("spec")).get("limits"))):
            if text(one, "type") == "Container":
                asked |= as_tree(one.get("defaultRequest"))
                most |= as_tree(one.get("default"))
        if asked or most:
            pod = with_amounts(pod, asked, most)
    return pod


def with_amounts(pod: Tree, asked: Tree, most: Tree) -> Tree:
    """A pod whose containers get these default requests and limits, and an annotation that says so."""
    notes: list[str] = []
    spec = {**as_tree(pod.get("spec"))}
    for field, word in CONTAINER_LISTS:
        if field not in spec:
            continue

        def change(container: Tree, word: str = word) -> Tree:
            resources = as_tree(container.get("resources"))
            requests, limits = as_tree(resources.get("requests")), as_tree(resources.get("limits"))
            name = text(container, "name")
            for what, have, wanted in (("request", requests, asked), ("limit", limits, most)):
                added = sorted(one for one in wanted if one not in have)
                if added:
                    notes.append(f"{', '.join(added)} {what} for {word} {name}")
            made = {"limits": {**most, **limits}, "requests": {**asked, **requests}}
            return {**container, "resources": {**resources, **{key: one for key, one in made.items() if one}}}

        spec[field] = each(spec[field], change)
    if not notes:
        return pod
    annotations = {**as_tree(meta(pod).get("annotations")), LIMITED: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return with_meta({**pod, "spec": spec}, annotations=annotations)


def range_errors(pod: Tree, limits: Tree) -> Iterator[str]:
    """Errors of a pod by a LimitRange."""
    spec = mapping(pod, "spec")
    for _, one in mappings(limits, "spec", "limits"):
        kind = text(one, "type")
        if kind == "Container":
            for field, _ in CONTAINER_LISTS:
                for _, container in mappings(spec, field):
                    resources = mapping(container, "resources")
                    yield from bound_errors(kind, one, mapping(resources, "requests"), mapping(resources, "limits"))
        elif kind == "Pod":
            yield from bound_errors(kind, one, summed(spec, "requests"), summed(spec, "limits"))


def summed(spec: Mapping[str, object], field: str) -> dict[str, object]:
    """The total requests or limits of a pod's containers; the largest init container counts if it is more."""
    total: dict[str, int] = {}
    first: dict[str, int] = {}
    families: dict[str, Quantity] = {}
    for place, _ in CONTAINER_LISTS:
        for _, container in mappings(spec, place):
            for name, value in mapping(container, "resources", field).items():
                found = amount(value)
                if found is None:
                    continue
                families.setdefault(name, found)
                beside = place == "containers" or text(container, "restartPolicy") == "Always"
                if beside:
                    total[name] = total.get(name, 0) + found.nanos
                else:
                    first[name] = max(first.get(name, 0), found.nanos)
    return {
        name: str(Quantity(max(total.get(name, 0), first.get(name, 0)), kind.family)) for name, kind in families.items()
    }


def bound_errors(
    kind: str, limit: Mapping[str, object], requests: Mapping[str, object], limits: Mapping[str, object]
) -> Iterator[str]:
    """Errors for amounts outside their bounds."""
    for name, value in mapping(limit, "min").items():
        least, asked, most = amount(value), amount(requests.get(name)), amount(limits.get(name))
        if least is None:
            continue
        head = f"minimum {name} usage per {kind} is {least}"
        if asked is None:
            yield f"{head}.  No request is specified"
        elif asked.nanos < least.nanos:
            yield f"{head}, but request is {asked}"
        elif most is not None and most.nanos < least.nanos:
            yield f"{head}, but limit is {most}"
    for name, value in mapping(limit, "max").items():
        bound, asked, most = amount(value), amount(requests.get(name)), amount(limits.get(name))
        if bound is None:
            continue
        head = f"maximum {name} usage per {kind} is {bound}"
        if most is None:
            yield f"{head}.  No limit is specified"
        elif most.nanos > bound.nanos:
            yield f"{head}, but limit is {most}"
        elif asked is not None and asked.nanos > bound.nanos:
            yield f"{head}, but request is {asked}"
    for name, value in mapping(limit, "maxLimitRequestRatio").items():
        ratio, asked, most = amount(value), amount(requests.get(name)), amount(limits.get(name))
        if ratio is None:
            continue
        head = f"{name} max limit to request ratio per {kind} is {ratio}"
        if asked is None or not asked.nanos:
            yield f"{head}, but no request is specified or request is 0"
        elif most is None or not most.nanos:
            yield f"{head}, but no limit is specified or limit is 0"
        elif most.nanos * 10**9 > ratio.nanos * asked.nanos:
            yield f"{head}, but provided ratio is {most.nanos / asked.nanos:f}"
