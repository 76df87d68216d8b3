"""Validation of the smaller built-in kinds, such as ConfigMaps, Secrets, PriorityClasses, Leases and Events."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.fields import IMMUTABLE, FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from pykueue.api.labels import SUBDOMAIN_BYTES_MAX, ill_formed, label_name_errors
from pykueue.api.trees import amount, mapping, mappings, member, text, whole
from pykueue.apiserver.kinds.validation_pods import PREEMPTION, template_errors
from pykueue.base.units import Quantity

DATA_MAX: Final = 1024 * 1024
EVENT_TEXT_MAX: Final = 128
NOTE_MAX: Final = 1024
KEY_FORM: Final = "[-._a-zA-Z0-9]+"
KEY_SAYS: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
FROZEN: Final = "field is immutable when `immutable` is set"
PRIORITY_MAX: Final = 1_000_000_000
SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
NEEDED_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that a Secret of a type must have."""


def key_messages(key: str) -> Iterator[str]:
    """Messages for a text that is not a valid key of `data`."""
    if len(key) > SUBDOMAIN_BYTES_MAX:
        yield f"must be no more than {SUBDOMAIN_BYTES_MAX} characters"
    if not re.fullmatch(KEY_FORM, key):
        yield ill_formed(KEY_SAYS, KEY_FORM, "key.name", "KEY_NAME", "key-name")
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def config_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a ConfigMap."""
    data, binary = mapping(tree, "data"), mapping(tree, "binaryData")
    size = 0
    for field, held in (("data", data), ("binaryData", binary)):
        for key, value in held.items():
            yield from (invalid(f"{field}[{key}]", key, message) for message in key_messages(key))
            if field == "data" and key in binary:
                yield invalid(f"{field}[{key}]", key, "duplicate of key present in binaryData")
            size += held_bytes(value) if field == "binaryData" else len(str(value).encode(errors="surrogatepass"))
    if size > DATA_MAX:
        yield too_long("[]", DATA_MAX)


def held_bytes(value: object) -> int:
    """The number of bytes that a base64 text encodes."""
    try:
        return len(b64decode(str(value)))
    except (Base64Error, ValueError):
        return 0


def config_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed ConfigMap."""
    yield from frozen_errors(new, old, ("data", "binaryData"))
    yield from config_errors(new)


def frozen_errors(new: Tree, old: Tree, fields: tuple[str, ...]) -> Iterator[FieldError]:
    """Errors for changes of an immutable ConfigMap or Secret."""
    if old.get("immutable") is not True:
        return
    if new.get("immutable") is not True:
        yield forbidden("immutable", FROZEN)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden(field, FROZEN)


def secret_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a Secret."""
    data, kind = mapping(tree, "data"), text(tree, "type")
    for key in data:
        yield from (invalid(f"data[{key}]", key, message) for message in key_messages(key))
    if sum(map(held_bytes, data.values())) > DATA_MAX:
        yield too_long("data", DATA_MAX)
    yield from (required(f"data[{key}]") for key in NEEDED_KEYS.get(kind, ()) if key not in data)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield required("data[username]")
        yield required("data[password]")


def secret_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed Secret."""
    if new.get("type") != old.get("type"):
        yield invalid("type", new.get("type"), IMMUTABLE)
    yield from frozen_errors(new, old, ("data",))
    yield from secret_errors(new)


def class_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a PriorityClass."""
    name, value = text(tree, "metadata", "name"), whole(tree, "value") or 0
    if name.startswith("system-"):
        known = SYSTEM_CLASSES.get(name)
        if known is None:
            detail = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {name} is not "
            )
            yield forbidden("metadata.name", f"{detail}a known system priority class")
        elif value != known:
            detail = "priority class names with 'system-' prefix are reserved for system use only. error: value of "
            yield forbidden("metadata.name", f"{detail}{name} PriorityClass must be {known}")
    elif value > PRIORITY_MAX:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {PRIORITY_MAX}")
    policy = text(tree, "preemptionPolicy")
    if policy not in PREEMPTION:
        yield not_supported("preemptionPolicy", policy, PREEMPTION)


def class_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed PriorityClass."""
    if (whole(new, "value") or 0) != (whole(old, "value") or 0):
        yield forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def lease_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a Lease."""
    seconds, changes = whole(tree, "spec", "leaseDurationSeconds"), whole(tree, "spec", "leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if changes is not None and changes < 0:
        yield invalid("spec.leaseTransitions", changes, "must be greater than or equal to 0")


def range_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a LimitRange: bounds and defaults in the wrong order."""
    seen: set[str] = set()
    for index, limit in mappings(tree, "spec", "limits"):
        path = f"spec.limits[{index}]"
        yield from label_name_errors(text(limit, "type"), f"{path}.type")
        if text(limit, "type") in seen:
            yield duplicate(f"{path}.type", text(limit, "type"))
        seen.add(text(limit, "type"))
        if text(limit, "type") == "Pod":
            for field in ("default", "defaultRequest"):
                if mapping(limit, field):
                    yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        least, most = mapping(limit, "min"), mapping(limit, "max")
        request, default = mapping(limit, "defaultRequest"), mapping(limit, "default")
        for name in sorted({*least, *most, *request, *default}):
            low, high, asked, given = (amount(held.get(name)) for held in (least, most, request, default))
            asks = f"{path}.defaultRequest[{name}]"
            what = "default request value"
            yield from over(f"{path}.min[{name}]", low, low, "min value", high, "max value")
            yield from over(asks, asked, low, "min value", asked, what)
            yield from over(asks, asked, asked, what, high, "max value")
            yield from over(asks, asked, asked, what, given, "default limit value")
            yield from over(f"{path}.default[{name}]", low, low, "min value", given, "default value")
            yield from over(f"{path}.default[{name}]", high, given, "default value", high, "max value")


def over(
    path: str, shown: Quantity | None, less: Quantity | None, what: str, more: Quantity | None, than: str
) -> Iterator[FieldError]:
    """An error if the lower bound exceeds the upper one."""
    if shown is not None and less is not None and more is not None and less.nanos > more.nanos:
        yield invalid(path, str(shown), f"{what} {less} is greater than {than} {more}")


def event_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of an Event of the core group."""
    namespace, inside = text(tree, "metadata", "namespace"), text(tree, "involvedObject", "namespace")
    timed = tree.get("eventTime") is not None
    beside = ("default", "kube-system") if timed else ("default",)
    differs = namespace not in beside if not inside else not timed and inside != namespace
    if differs:
        yield invalid("involvedObject.namespace", inside, "does not match event.namespace")
    if not timed:
        return
    for field in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = text(tree, field)
        if not value:
            yield required(field)
        if field == "reportingComponent":
            yield from label_name_errors(value, field)
        elif len(value) > EVENT_TEXT_MAX:
            yield invalid(field, "", f"can have at most {EVENT_TEXT_MAX} characters")
    if len(text(tree, "message")) > NOTE_MAX:
        yield invalid("message", "", f"can have at most {NOTE_MAX} characters")


def new_event_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of an Event of events.k8s.io."""
    for error in event_errors(tree):
        path = "reportingController" if error.path == "reportingComponent" else error.path
        yield FieldError(path, error.code, error.value, error.detail)
    series = member(tree, "series")
    if isinstance(series, Mapping):
        if (whole(series, "count") or 0) < 2:
            yield invalid("series.count", "", "should be at least 2")
        if not text(series, "lastObservedTime"):
            yield required("series.lastObservedTime")
    if tree.get("eventTime") is None:
        yield required("eventTime")
    if text(tree, "type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {text(tree, 'type')}")
    for field in ("firstTimestamp", "lastTimestamp", "count"):
        if tree.get(field):
            yield invalid(field, "", "needs to be unset")
    if text(tree, "source", "component") or text(tree, "source", "host"):
        yield invalid("source", "", "needs to be unset")


def runtime_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a RuntimeClass."""
    if not text(tree, "handler"):
        yield required("handler")


def runtime_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed RuntimeClass."""
    if member(new, "handler") != member(old, "handler"):
        yield invalid("handler", member(new, "handler"), IMMUTABLE)


Judge = Callable[[Tree], Iterator[FieldError]]


def same(judge: Judge) -> Callable[[Tree, Tree], Iterator[FieldError]]:
    """Validate a changed object as if it were new."""
    return lambda new, old: judge(new)


def pod_template_errors(tree: Tree) -> Iterator[FieldError]:
    """Errors of a PodTemplate."""
    yield from template_errors(mapping(tree, "template"), "template")
