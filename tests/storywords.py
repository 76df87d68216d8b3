"""What does a line of a story say? Words to the engine's nouns, and back. Next: `story`, which plays them."""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from pykueue.base.units import MICROS, Instant, QuantityError, Seconds, amount_of, parse_quantity
from pykueue.engine.facts import Kind
from pykueue.engine.model import (
    KUEUE_SETTING,
    Check,
    CheckRule,
    CheckState,
    ClusterQueue,
    Cohort,
    DeactivationTarget,
    Evicted,
    Flavor,
    LocalQueue,
    Namespace,
    Options,
    PodSet,
    PodsReady,
    Preempted,
    Quota,
    Requeued,
    ResourceGroup,
    Selector,
    Taint,
    Thing,
    Toleration,
    Waiting,
    Workload,
)

NAMESPACE = "ns"
"""The namespace of every name that is written without one."""
RESOURCES = ("cpu", "memory", "pods", "gpu", "disk", "ephemeral-storage")
"""Resources that need no slash; any other bare word is taken for a slip of the pen."""
TOKEN = re.compile(r'(?:[^\s"]|"[^"]*")+')
DURATION = re.compile(r"([+-]?)(\d+)(us|ms|s|m|h|d)?")
UNIT = {"us": 1, "ms": 1_000, "s": MICROS, "": MICROS, "m": 60 * MICROS, "h": 3_600 * MICROS, "d": 86_400 * MICROS}
AMOUNT = re.compile(r"([^+-]+)(?:\+([^+-]+))?(?:-([^+-]+))?")
POD_SET = re.compile(r"(?:([a-z0-9-]+)=)?(\d+)x")
MANY = re.compile(r"(.*?)(\d+)\.\.(\d+)")


class StoryError(AssertionError):
    """A story that cannot be read, or that the engine tells otherwise."""


def unknown(word: str, what: str, known: Iterable[str]) -> StoryError:
    """The error for a word nobody taught the language."""
    return StoryError(f"{word!r} is no word for {what}; known: {', '.join(known)}")


def tokens(line: str) -> list[str]:
    """The words of a line. Double quotes keep spaces together and are dropped."""
    return [token.replace('"', "") for token in TOKEN.findall(line)]


def names(words: Iterable[str]) -> list[str]:
    """Names, with `w1..3` spelled out as w1, w2, w3."""
    found: list[str] = []
    for word in words:
        many = MANY.fullmatch(word)
        if many is None:
            found.append(word)
        else:
            found += [f"{many[1]}{number}" for number in range(int(many[2]), int(many[3]) + 1)]
    return found


def key_of(name: str) -> str:
    """A name with its namespace."""
    return name if "/" in name else f"{NAMESPACE}/{name}"


def name_of(key: str) -> str:
    """A key as stories write it."""
    return key.removeprefix(f"{NAMESPACE}/")


def micros(text: str) -> int:
    """A duration such as 90s, 5m, -10s or 250ms, in microseconds; a bare number is seconds."""
    found = DURATION.fullmatch(str(text))
    if found is None:
        raise StoryError(f"{text!r} is not a duration; write it as in 90s, 5m, 1h or 250ms")
    return int(found[1] + found[2]) * UNIT[found[3] or ""]


def seconds(text: str) -> Seconds:
    """A duration in whole seconds."""
    return Seconds(micros(text) // MICROS)


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise StoryError(f"{text!r} is no whole number") from None


def truth(text: str) -> bool:
    """True or false."""
    if text not in ("true", "false"):
        raise StoryError(f"{text!r} is neither true nor false")
    return text == "true"


def text_or_none(text: str) -> str:
    """A text; `none` is the empty one."""
    return "" if text == "none" else text


def amount(resource: str, text: str) -> int:
    """An amount of a resource as the engine counts it."""
    try:
        return amount_of(resource, parse_quantity(text))
    except QuantityError as error:
        raise StoryError(f"{resource}={text}: {error}") from None


def is_resource(word: str) -> bool:
    """Whether a word names a resource."""
    return word in RESOURCES or "/" in word or word.startswith("hugepages-")


def pair(word: str) -> tuple[str, str] | None:
    """The (flavor, resource) that a word names, `default` when it names a resource alone."""
    domain = word.partition("/")[0]
    dots_of_resource = 1 if "/" in word else 0
    flavor, resource = "default", word
    if domain.count(".") > dots_of_resource:
        flavor, _, resource = word.partition(".")
    return (flavor, resource) if is_resource(resource) else None


def split(token: str) -> tuple[str, str]:
    """A word and its value; a word alone means true."""
    word, equals, value = token.partition("=")
    return (word, value) if equals else (word, "true")


def labels(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Labels, from words such as pool=b."""
    return tuple(split(value) for value in values)


def toleration(text: str) -> Toleration:
    """A toleration: `key`, `key=value`, either with `:Effect` behind it, or `*` for everything."""
    spec, _, effect = text.partition(":")
    if spec == "*":
        return Toleration(operator="Exists", effect=effect)
    key, equals, value = spec.partition("=")
    return Toleration(key, "Equal" if equals else "Exists", value, effect)


def taint(text: str) -> Taint:
    """A taint: `key=value:Effect`."""
    spec, _, effect = text.partition(":")
    key, _, value = spec.partition("=")
    return Taint(key, value, effect or "NoSchedule")


def requirement(text: str) -> tuple[str, str, tuple[str, ...]]:
    """A requirement on labels: `key=value`, or `key:Operator:value|value`."""
    if ":" not in text:
        key, value = split(text)
        return key, "In", (value,)
    key, operator, *values = text.split(":")
    return key, operator, tuple(values[0].split("|")) if values else ()


def quotas(words: Mapping[str, str]) -> tuple[Quota, ...]:
    """Quota: `cpu=10` of flavor default, `spot.cpu=10+5-2` of flavor spot with limits to borrow 5 and to lend 2."""
    found = []
    for word, value in words.items():
        named, limits = pair(word), AMOUNT.fullmatch(value)
        assert named is not None, f"{word} names no resource"
        if limits is None:
            raise StoryError(
                f"{word}={value}: write nominal, +borrowing limit, -lending limit, as in 10, 10+5, 10-2, 10+5-2"
            )
        flavor, resource = named
        nominal, borrow, lend = (None if part is None else amount(resource, part) for part in limits.groups())
        found.append(Quota(flavor, resource, nominal or 0, borrow, lend))
    return tuple(found)


def groups(quota: tuple[Quota, ...]) -> tuple[ResourceGroup, ...]:
    """Resource groups: resources on the same flavors belong together, as a ClusterQueue demands."""
    flavors: dict[str, list[str]] = {}
    for one in quota:
        flavors.setdefault(one.resource, []).append(one.flavor)
    together: dict[tuple[str, ...], list[str]] = {}
    for resource, listed in flavors.items():
        together.setdefault(tuple(listed), []).append(resource)
    shared = [flavor for listed in together for flavor in listed]
    for flavor in shared:
        if shared.count(flavor) > 1:
            raise StoryError(
                f"flavor {flavor} would be in two resource groups; give each of its resources the same flavors"
            )
    return tuple(ResourceGroup(tuple(resources), listed) for listed, resources in together.items())


QUEUE_WORDS = {
    "cohort": "cohort",
    "strategy": "strategy",
    "stop": "stop",
    "unbuilt": "unbuilt",
    "within": "preemption.within_queue",
    "reclaim": "preemption.reclaim",
    "borrow": "preemption.borrow_within_cohort",
    "threshold": "preemption.borrow_threshold",
    "can_borrow": "fungibility.when_can_borrow",
    "can_preempt": "fungibility.when_can_preempt",
    "prefer": "fungibility.preference",
}
"""Words of a ClusterQueue, and the field of the model that each one sets."""


def convert(tree: object, kind: type[Thing]) -> Thing:
    """A struct from plain values; a wrong value is told with the right ones."""
    try:
        return msgspec.convert(tree, kind, strict=False)
    except msgspec.ValidationError as error:
        raise StoryError(str(error)) from None


def sort_words(words: Iterable[str], known: Iterable[str], what: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The values of each known word, and the amounts of resources; any other word is an error."""
    said: dict[str, list[str]] = {}
    amounts: dict[str, str] = {}
    for token in words:
        word, value = split(token)
        if word in known:
            said.setdefault(word, []).append(value)
        elif pair(word) is not None:
            amounts[word] = value
        else:
            raise unknown(word, what, [*known, *RESOURCES, "FLAVOR.RESOURCE", "any/resource"])
    return said, amounts


def cluster_queue(name: str, words: list[str], before: ClusterQueue | None) -> ClusterQueue:
    """A ClusterQueue; what is not written stays as it was, quota as a whole."""
    several = ("checks", "namespaces", "terminating", "usage_based", "weight")
    said, amounts = sort_words(words, [*QUEUE_WORDS, *several], "a queue")
    tree = msgspec.to_builtins(before or ClusterQueue(name, namespaces=Selector()))
    if amounts:
        quota = quotas(amounts)
        tree |= {"quotas": msgspec.to_builtins(quota), "groups": msgspec.to_builtins(groups(quota))}
    for word, field in QUEUE_WORDS.items():
        for value in said.get(word, ()):
            part, _, inner = field.partition(".")
            if inner:
                tree[part][inner] = None if value == "none" else value
            else:
                tree[part] = text_or_none(value)
    for word in ("terminating", "usage_based"):
        if word in said:
            tree[word] = said[word][-1] == "true"
    if "weight" in said:
        tree["weight"] = float(said["weight"][-1])
    if "checks" in said:
        rules = [check.partition("@") for check in said["checks"] if check != "none"]
        tree["checks"] = [
            {"check": check, "flavors": flavors.split("|") if flavors else []} for check, _, flavors in rules
        ]
    if "namespaces" in said:
        chosen = said["namespaces"]
        every = [] if chosen == ["all"] else [requirement(value) for value in chosen]
        tree["namespaces"] = None if chosen == ["none"] else {"requirements": every}
    found = convert(tree, ClusterQueue)
    assert isinstance(found, ClusterQueue)
    return found


def cohort(name: str, words: list[str], before: Cohort | None) -> Cohort:
    """A cohort; what is not written stays as it was, quota as a whole."""
    said, amounts = sort_words(words, ["parent", "usage_based", "weight"], "a cohort")
    found = before or Cohort(name)
    if "usage_based" in said:
        found = replace(found, usage_based=said["usage_based"][-1] == "true")
    if "weight" in said:
        found = replace(found, weight=float(said["weight"][-1]))
    if "parent" in said:
        found = replace(found, parent=text_or_none(said["parent"][-1]))
    return replace(found, quotas=quotas(amounts)) if amounts else found


def flavor(name: str, words: list[str], before: Flavor | None) -> Flavor:
    """A flavor: `taint=`, `tolerates=` and `unbuilt=`; every other word is a label."""
    own = ("taint", "tolerates", "unbuilt")
    said = [split(word) for word in words]
    found = before or Flavor(name)
    marks = [value for word, value in said if word == "taint"]
    tolerated = [value for word, value in said if word == "tolerates"]
    named = tuple((word, value) for word, value in said if word not in own)
    if marks:
        found = replace(found, taints=() if marks == ["none"] else tuple(map(taint, marks)))
    if tolerated:
        found = replace(found, tolerations=() if tolerated == ["none"] else tuple(map(toleration, tolerated)))
    for word, value in said:
        if word == "unbuilt":
            found = replace(found, unbuilt=text_or_none(value))
    return replace(found, labels=named) if named else found


def local_queue(name: str, words: list[str], before: LocalQueue | None) -> LocalQueue:
    """A LocalQueue; without `queue=` it leads to the ClusterQueue of its own name. Amounts are its past use."""
    said, amounts = sort_words(words, ("queue", "stop", "terminating", "weight"), "a local queue")
    tree = msgspec.to_builtins(before or LocalQueue(key_of(name), name.rpartition("/")[2]))
    for word, values in said.items():
        tree[word] = values[-1] == "true" if word == "terminating" else values[-1]
    if amounts:
        tree["consumed"] = list(amounts.items())
    found = convert(tree, LocalQueue)
    assert isinstance(found, LocalQueue)
    return found


def check(name: str, words: list[str], before: Check | None) -> Check:
    """An AdmissionCheck, active unless it says `inactive`."""
    found = before or Check(name, active=True)
    for word, value in map(split, words):
        if word == "controller":
            found = replace(found, controller=value)
        elif word in ("active", "inactive"):
            found = replace(found, active=word == "active")
        else:
            raise unknown(word, "a check", ("active", "inactive", "controller"))
    return found


def namespace(name: str, words: list[str], before: Namespace | None) -> Namespace:
    """A namespace; its words are its labels, all of them."""
    return replace(before or Namespace(name), labels=labels(words))


OBJECTS: dict[str, tuple[Kind, Callable[[str, list[str], Thing | None], Thing]]] = {
    "flavor": ("Flavor", flavor),  # type: ignore[dict-item]  # each is given what was stored under its own kind
    "cohort": ("Cohort", cohort),  # type: ignore[dict-item]  # likewise
    "queue": ("ClusterQueue", cluster_queue),  # type: ignore[dict-item]  # likewise
    "local": ("LocalQueue", local_queue),  # type: ignore[dict-item]  # likewise
    "namespace": ("Namespace", namespace),  # type: ignore[dict-item]  # likewise
    "check": ("Check", check),  # type: ignore[dict-item]  # likewise
}
"""The word for each kind of object, the kind, and how its line is read."""


def check_state(text: str, now: Instant) -> CheckState:
    """What a check says: `name:State`, then a delay such as `8s`, then a message."""
    name, _, rest = text.partition(":")
    state, _, rest = rest.partition(":")
    if state not in ("Pending", "Ready", "Retry", "Rejected"):
        raise unknown(state, "the state of a check", ("Pending", "Ready", "Retry", "Rejected"))
    delay, _, after_delay = rest.partition(":")
    if delay and DURATION.fullmatch(delay):
        return CheckState(name, state, now, after_delay, seconds(delay))
    return CheckState(name, state, now, rest)


def with_check(workload: Workload, text: str, now: Instant) -> dict[str, object]:
    """The checks of a workload once one of them has spoken."""
    said = check_state(text, now)
    before = {state.name: state for state in workload.checks}
    old = before.get(said.name)
    before[said.name] = said if old is None else replace(said, retries=old.retries)
    return {"checks": tuple(before.values())}


def with_reclaimed(workload: Workload, text: str) -> dict[str, object]:
    """The reclaimable pods of a workload once `pod set:count` of them are."""
    pod_set, _, count = text.rpartition(":")
    return {"reclaimable": tuple((dict(workload.reclaimable) | {pod_set or "main": whole(count)}).items())}


def requeued(text: str) -> Requeued | None:
    """The Requeued condition: `true:Reason`, `false:Reason` or `none`."""
    may, _, reason = text.partition(":")
    return None if text == "none" else Requeued(truth(may), reason)


def reason_and_message(text: str) -> tuple[str, str]:
    """The two halves of `Reason:message`; the message may be missing."""
    reason, _, message = text.partition(":")
    return reason, message


def evicted(text: str, now: Instant) -> Evicted | None:
    """The Evicted condition: `Reason`, `Reason:message` or `none`."""
    reason, message = reason_and_message(text)
    return None if text == "none" else Evicted(reason, now, message)


Setter = Callable[[str, Workload, Instant], dict[str, object]]

WORKLOAD_WORDS: dict[str, Setter] = {
    "priority": lambda v, w, now: {"priority": whole(v)},
    "boost": lambda v, w, now: {"boost": whole(v)},
    "at": lambda v, w, now: {"created": Instant(now + micros(v))},
    "uid": lambda v, w, now: {"uid": v},
    "job": lambda v, w, now: {"job_uid": v},
    "queue": lambda v, w, now: {"local_queue": f"{w.namespace}/{v}"},
    "active": lambda v, w, now: {"active": truth(v)},
    "finished": lambda v, w, now: {"finished": truth(v)},
    "generation": lambda v, w, now: {"generation": whole(v)},
    "gates": lambda v, w, now: {"gated_by": text_or_none(v).replace("|", ",")},
    "hold": lambda v, w, now: {"on_hold": truth(v)},
    "replacing": lambda v, w, now: {"replacing": truth(v)},
    "problem": lambda v, w, now: {"problem": text_or_none(v)},
    "unbuilt": lambda v, w, now: {"unbuilt": text_or_none(v)},
    "max_run": lambda v, w, now: {"max_run": None if v == "none" else seconds(v)},
    "past_run": lambda v, w, now: {"past_run": seconds(v)},
    "reclaim": lambda v, w, now: with_reclaimed(w, v),
    "check": lambda v, w, now: with_check(w, v, now),
    "ready": lambda v, w, now: {"pods_ready": PodsReady(True, "PodsReady" if v == "true" else v, now)},
    "unready": lambda v, w, now: {"pods_ready": PodsReady(False, "WaitForStart" if v == "true" else v, now)},
    "evicted": lambda v, w, now: {"evicted": evicted(v, now)},
    "preempted": lambda v, w, now: {"preempted": None if v == "none" else Preempted(v, now)},
    "requeued": lambda v, w, now: {"requeued": requeued(v)},
    "requeue_in": lambda v, w, now: {"requeue_at": None if v == "none" else Instant(now + micros(v))},
    "count": lambda v, w, now: {"requeue_count": whole(v)},
    "waiting": lambda v, w, now: {"waiting": None if v == "none" else Waiting(*reason_and_message(v))},
    "deactivation": lambda v, w, now: {
        "deactivation": None if v == "none" else DeactivationTarget(*reason_and_message(v))
    },
}
"""Words of a workload, and what each one changes."""
POD_WORDS = ("min", "node", "affinity", "tolerates", "shape")
SPEC_FIELDS = frozenset({"priority", "active", "local_queue", "max_run", "pod_sets"})
"""A change of one of these moves the generation on, as the API server would."""


def workload(words: list[str], before: Workload, now: Instant) -> Workload:
    """A workload as it is once these words are true of it."""
    pods: list[tuple[str, int, list[str]]] = []
    found = before
    changed: set[str] = set()
    for token in words:
        word, value = split(token)
        start = POD_SET.fullmatch(token)
        if start is not None:
            pods.append((start[1] or "main", int(start[2]), []))
        elif word in WORKLOAD_WORDS:
            changes = WORKLOAD_WORDS[word](value, found, now)
            found = replace(found, **changes)
            changed.update(changes)
        elif word in POD_WORDS or is_resource(word):
            if not pods:
                pods.append(("main", 1, []))
            pods[-1][2].append(token)
        else:
            raise unknown(word, "a workload", [*WORKLOAD_WORDS, *POD_WORDS, "NAME=3x", *RESOURCES, "any/resource"])
    if pods:
        found = replace(found, pod_sets=tuple(pod_set(*one) for one in pods))
        changed.add("pod_sets")
    if changed & SPEC_FIELDS and "generation" not in changed:
        found = replace(found, generation=found.generation + 1)
    return found


def pod_set(name: str, count: int, words: list[str]) -> PodSet:
    """Pods of one template."""
    requests: list[tuple[str, int]] = []
    said: dict[str, list[str]] = {}
    for word, value in map(split, words):
        if is_resource(word):
            requests.append((word, amount(word, value)))
        else:
            said.setdefault(word, []).append(value)
    return PodSet(
        name,
        count,
        tuple(requests),
        min_count=whole(said["min"][-1]) if "min" in said else None,
        selector=labels(said.get("node", ())),
        affinity=tuple(tuple(map(requirement, term.split("&"))) for term in said.get("affinity", ())),
        tolerations=tuple(map(toleration, said.get("tolerates", ()))),
        shape=said.get("shape", [""])[-1],
    )


def options(tree: Mapping[str, object]) -> Options:
    """The engine's options: its defaults, or Kueue's own behaviour with `kueue: true`, and what is written on top."""
    written = dict(tree)
    base = KUEUE_SETTING if written.pop("kueue", False) else Options()
    if written.get("pods_ready") is False:
        written["pods_ready"] = None
    known = Options.__struct_fields__
    for field in written:
        if field not in known:
            raise unknown(str(field), "an option", ("kueue", *known))
    try:
        return msgspec.convert(msgspec.to_builtins(base) | written, Options)
    except msgspec.ValidationError as error:
        raise StoryError(f"options: {error}") from None


def flavors_named(queue: ClusterQueue | Cohort) -> list[str]:
    """The flavors that a queue or cohort has quota in."""
    return list(dict.fromkeys(quota.flavor for quota in queue.quotas))


def checks_named(rules: Iterable[CheckRule]) -> list[str]:
    """The checks that rules demand."""
    return list(dict.fromkeys(rule.check for rule in rules))
