"""Validation of pods and pod templates, with the messages of kube-apiserver."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.fields import (
    NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykueue.api.labels import annotations_errors, label_name_errors, label_value, labels_errors
from pykueue.api.rules.podcheck import affinity_values, toleration_values
from pykueue.api.trees import amount, items, mapping, mappings, member, text, whole
from pykueue.apiserver.kinds.names import dns_label, dns_subdomain
from pykueue.apiserver.kinds.validation_volumes import inner_path_errors, volume_errors
from pykueue.base.units import NANO

INT32_MAX: Final = 2**31 - 1
RESTART: Final = ("Always", "OnFailure", "Never")
DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PULL: Final = ("Always", "IfNotPresent", "Never")
MESSAGES: Final = ("File", "FallbackToLogsOnError")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
SCHEMES: Final = ("HTTP", "HTTPS")
PREEMPTION: Final = ("PreemptLowerPriority", "Never")
STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
PORT_NAME_MAX: Final = 15
WHOLE_ONLY: Final = "must be an integer"
MUTABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
DOWNWARD: Final = re.compile(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']+'\]|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIP|hostIPs|podIP|podIPs)"
)
"""Fields of a pod that environment variables can refer to."""
ENVIRONMENT: Final = re.compile(r"[ -<>-~]+")
ENVIRONMENT_SAYS: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
RESOURCE_SAYS: Final = "must be a standard resource for containers"


def ranged(low: int, high: int) -> str:
    """Kubernetes' message for a number that is out of range."""
    return f"must be between {low} and {high}, inclusive"


def create_errors(pod: Tree) -> Iterator[FieldError]:
    """Errors of a new pod, except in its metadata."""
    spec = mapping(pod, "spec")
    yield from spec_errors(spec, "spec")
    if items(spec, "ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if text(spec, "nodeName") and items(spec, "schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def template_errors(template: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors of a pod template."""
    yield from labels_errors(member(template, "metadata", "labels"), f"{path}.labels")
    yield from annotations_errors(member(template, "metadata", "annotations"), f"{path}.annotations")
    yield from spec_errors(mapping(template, "spec"), f"{path}.spec")
    if items(template, "spec", "ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def spec_errors(spec: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in a pod spec."""
    volumes: set[str] = set()
    yield from volume_errors(spec, path, volumes)
    if not items(spec, "containers"):
        yield required(f"{path}.containers")
    yield from containers_errors(spec, path, volumes)
    yield from one_of(text(spec, "restartPolicy"), RESTART, f"{path}.restartPolicy")
    yield from one_of(text(spec, "dnsPolicy"), DNS, f"{path}.dnsPolicy")
    yield from labels_errors(member(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from user_errors(mapping(spec, "securityContext"), f"{path}.securityContext")
    yield from affinity_values(mapping(spec, "affinity", "nodeAffinity"), f"{path}.affinity.nodeAffinity")
    yield from node_affinity_errors(spec, f"{path}.affinity.nodeAffinity")
    yield from gate_errors(spec, path)
    yield from name_errors(spec, path)
    deadline = whole(spec, "activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, ranged(1, INT32_MAX))
    for index, toleration in mappings(spec, "tolerations"):
        yield from toleration_values(toleration, f"{path}.tolerations[{index}]")
        wrong = label_value(text(toleration, "value")) if text(toleration, "operator") in ("", "Equal") else ()
        if wrong:
            yield invalid(f"{path}.tolerations[{index}].operator", text(toleration, "value"), ";".join(wrong))
    preemption = text(spec, "preemptionPolicy")
    if preemption and preemption not in PREEMPTION:
        yield not_supported(f"{path}.preemptionPolicy", preemption, PREEMPTION)
    for name, value in mapping(spec, "overhead").items():
        yield from amount_errors(name, value, f"{path}.overhead[{name}]")


def node_affinity_errors(spec: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the required node affinity."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = mappings(spec, "affinity", "nodeAffinity", field, "nodeSelectorTerms")
    for index, term in terms:
        for place, one in mappings(term, "matchExpressions"):
            at = f"{path}.{field}.nodeSelectorTerms[{index}].matchExpressions[{place}].values"
            for number, value in enumerate(items(one, "values")):
                if isinstance(value, str):
                    yield from (invalid(f"{at}[{number}]", value, message) for message in label_value(value))


def one_of(value: str, offered: tuple[str, ...], path: str) -> Iterator[FieldError]:
    """Errors of a value that must be one of a set."""
    if not value:
        yield required(path)
    elif value not in offered:
        yield not_supported(path, value, offered)


def gate_errors(spec: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the scheduling gates."""
    seen: set[str] = set()
    for index, gate in mappings(spec, "schedulingGates"):
        name, at = text(gate, "name"), f"{path}.schedulingGates[{index}]"
        yield from label_name_errors(name, at)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


NAMES: Final[tuple[tuple[str, Callable[[str], tuple[str, ...]]], ...]] = (
    ("serviceAccountName", dns_subdomain),
    ("nodeName", dns_subdomain),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", dns_subdomain),
)
"""Fields that contain a name, and the validation of that name."""


def name_errors(spec: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the names that a pod refers to."""
    for field, judge in NAMES:
        name = text(spec, field)
        if name:
            yield from (invalid(f"{path}.{field}", name, message) for message in judge(name))


def containers_errors(spec: Mapping[str, object], path: str, volumes: set[str]) -> Iterator[FieldError]:
    """Errors in the containers of a pod."""
    names: set[str] = set()
    for index, container in mappings(spec, "containers"):
        at, name = f"{path}.containers[{index}]", text(container, "name")
        yield from container_errors(container, at, volumes)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        yield from probes_errors(container, at)
    for index, container in mappings(spec, "initContainers"):
        at, name = f"{path}.initContainers[{index}]", text(container, "name")
        yield from container_errors(container, at, volumes)
        restart = member(container, "restartPolicy")
        if restart is not None and restart != "Always":
            yield not_supported(f"{at}.restartPolicy", restart, ("Always",))
        if name in names:
            yield duplicate(f"{at}.name", name)
        elif name:
            names.add(name)
        if restart == "Always":
            yield from probes_errors(container, at)
        else:
            for field in ("lifecycle", *PROBES):
                if member(container, field) is not None:
                    yield forbidden(f"{at}.{field}", "may not be set for init containers without restartPolicy=Always")


def container_errors(container: Mapping[str, object], path: str, volumes: set[str]) -> Iterator[FieldError]:
    """Errors in a container of any sort."""
    name = text(container, "name")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid(f"{path}.name", name, message) for message in dns_label(name))
    if not text(container, "image"):
        yield required(f"{path}.image")
    yield from one_of(text(container, "terminationMessagePolicy"), MESSAGES, f"{path}.terminationMessagePolicy")
    yield from port_errors(container, path)
    yield from environment_errors(container, path)
    mounted: set[str] = set()
    for index, mount in mappings(container, "volumeMounts"):
        at, place = f"{path}.volumeMounts[{index}]", text(mount, "mountPath")
        if not text(mount, "name"):
            yield required(f"{at}.name")
        if text(mount, "name") not in volumes:
            yield not_found(f"{at}.name", text(mount, "name"))
        if not place:
            yield required(f"{at}.mountPath")
        if place in mounted:
            yield invalid(f"{at}.mountPath", place, "must be unique")
        mounted.add(place)
        for field in ("subPath", "subPathExpr"):
            # kube-apiserver's path is the list here, not the item.
            yield from inner_path_errors(text(mount, field), f"{path}.volumeMounts.{field}")
    yield from one_of(text(container, "imagePullPolicy"), PULL, f"{path}.imagePullPolicy")
    yield from resource_errors(mapping(container, "resources"), f"{path}.resources")
    yield from user_errors(mapping(container, "securityContext"), f"{path}.securityContext")


def user_errors(context: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in user and group ids."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        number = whole(context, field)
        if number is not None and not 0 <= number <= INT32_MAX:
            yield invalid(f"{path}.{field}", number, ranged(0, INT32_MAX))
    for index, group in enumerate(items(context, "supplementalGroups")):
        if isinstance(group, int) and not 0 <= group <= INT32_MAX:
            yield invalid(f"{path}.supplementalGroups[{index}]", group, ranged(0, INT32_MAX))


def port_errors(container: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the ports of a container."""
    names: set[str] = set()
    for index, port in mappings(container, "ports"):
        at, name = f"{path}.ports[{index}]", text(port, "name")
        wrong = [*port_name(name)] if name else []
        yield from (invalid(f"{at}.name", name, message) for message in wrong)
        if name and not wrong and name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        number, host = whole(port, "containerPort") or 0, whole(port, "hostPort") or 0
        if not number:
            yield required(f"{at}.containerPort")
        elif not 0 < number < 65536:
            yield invalid(f"{at}.containerPort", number, PORT_RANGE)
        if host and not 0 < host < 65536:
            yield invalid(f"{at}.hostPort", host, PORT_RANGE)
        yield from one_of(text(port, "protocol"), PROTOCOLS, f"{at}.protocol")


def environment_errors(container: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the environment of a container."""
    for index, variable in mappings(container, "env"):
        at, name = f"{path}.env[{index}]", text(variable, "name")
        if not name:
            yield required(f"{at}.name")
        elif not ENVIRONMENT.fullmatch(name):
            yield invalid(f"{at}.name", name, ENVIRONMENT_SAYS)
        source = member(variable, "valueFrom")
        if not isinstance(source, Mapping):
            continue
        field_path = text(source, "fieldRef", "fieldPath")
        if isinstance(source.get("fieldRef"), Mapping) and not field_path:
            yield required(f"{at}.valueFrom.fieldRef.fieldPath")
        if field_path and not DOWNWARD.fullmatch(field_path):
            detail = f"error converting fieldPath: field label not supported: {field_path}"
            yield invalid(f"{at}.valueFrom.fieldRef.fieldPath", field_path, detail)
        count = sum(1 for field in SOURCES if isinstance(source.get(field), Mapping))
        if not count:
            offered = ", ".join(f"`{field}`" for field in SOURCES[:-1])
            yield invalid(f"{at}.valueFrom", "", f"must specify one of: {offered} or `{SOURCES[-1]}`")
        elif text(variable, "value"):
            yield invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")
        elif count > 1:
            yield invalid(f"{at}.valueFrom", "", "may not have more than one field specified at a time")


def resource_errors(resources: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the requests and limits of a container."""
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            at = f"{path}.{field}[{name}]"
            yield from label_name_errors(name, at)
            if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
                yield invalid(at, name, RESOURCE_SAYS)
            yield from amount_errors(name, value, at)
            if field == "requests":
                yield from request_errors(name, value, limits, path)


def request_errors(name: str, value: object, limits: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors of a request that does not fit its limit."""
    asked, most = amount(value), amount(limits.get(name))
    shared = "/" not in name and not name.startswith("hugepages-")
    if asked is None:
        return
    if most is None:
        if not shared:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif asked.nanos != most.nanos and not shared:
        yield invalid(f"{path}.requests", str(asked), f"must be equal to {name} limit of {most}")
    elif asked.nanos > most.nanos:
        yield invalid(f"{path}.requests", str(asked), f"must be less than or equal to {name} limit of {most}")


def amount_errors(name: str, value: object, path: str) -> Iterator[FieldError]:
    """Errors of an amount."""
    found = amount(value)
    if found is None:
        return
    if found.nanos < 0:
        yield invalid(path, str(found), NEGATIVE)
    if "/" in name and found.nanos % NANO:
        yield invalid(path, str(found), WHOLE_ONLY)


def probes_errors(container: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the hooks and probes of a container."""
    for hook in ("postStart", "preStop"):
        if isinstance(member(container, "lifecycle", hook), Mapping):
            yield from handler_errors(mapping(container, "lifecycle", hook), f"{path}.lifecycle.{hook}")
    for field in PROBES:
        probe = member(container, field)
        if not isinstance(probe, Mapping):
            continue
        at = f"{path}.{field}"
        yield from handler_errors(probe, at)
        for number in COUNTS:
            count = whole(probe, number)
            if count is not None and count < 0:
                yield invalid(f"{at}.{number}", count, NEGATIVE)
        if field != "readinessProbe" and (whole(probe, "successThreshold") or 1) != 1:
            yield invalid(f"{at}.successThreshold", whole(probe, "successThreshold"), "must be 1")


def handler_errors(action: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the action of a hook or a probe."""
    given = [handler for handler in HANDLERS if isinstance(action.get(handler), Mapping)]
    if "exec" in given and not items(action, "exec", "command"):
        yield required(f"{path}.exec.command")
    request = mapping(action, "httpGet")
    if request:
        yield from probe_port_errors(request, f"{path}.httpGet")
        if text(request, "scheme") not in SCHEMES:
            yield not_supported(f"{path}.httpGet.scheme", text(request, "scheme"), SCHEMES)
    if "tcpSocket" in given:
        yield from probe_port_errors(mapping(action, "tcpSocket"), f"{path}.tcpSocket")
    yield from (forbidden(f"{path}.{handler}", "may not specify more than 1 handler type") for handler in given[1:])
    if not given:
        yield required(path, "must specify a handler type")


def probe_port_errors(action: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the port of a probe."""
    port = member(action, "port")
    if isinstance(port, str):
        yield from (invalid(f"{path}.port", port, message) for message in port_name(port))
    elif isinstance(port, int) and not 0 < port < 65536:
        yield invalid(f"{path}.port", port, PORT_RANGE)


def port_name(text: str) -> Iterator[str]:
    """Messages for a text that is not a valid port name."""
    if len(text) > PORT_NAME_MAX:
        yield f"must be no more than {PORT_NAME_MAX} characters"
    if not re.fullmatch(r"[-a-z0-9]+", text):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", text):
        yield "must contain at least one letter (a-z)"
    if "--" in text:
        yield "must not contain consecutive hyphens"
    if text and (text[0] == "-" or text[-1] == "-"):
        yield "must not begin or end with a hyphen"


def update_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Errors of a changed pod, except in its metadata."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    if spec == before:
        return
    yield from spec_errors(spec, "spec")
    for field in ("containers", "initContainers"):
        if len(items(spec, field)) != len(items(before, field)):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    yield from deadline_errors(spec, before)
    kept = [one for one in items(before, "tolerations") if one not in items(spec, "tolerations")]
    if kept:
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    gates = [one for one in items(spec, "schedulingGates") if one not in items(before, "schedulingGates")]
    if gates:
        detail = "only deletion is allowed, but found new scheduling gate "
        place = items(spec, "schedulingGates").index(gates[0])
        yield forbidden(f"spec.schedulingGates[{place}].name", f"{detail}'{text(gates[0], 'name')}'")
    fixed = with_fixed(spec, before)
    if fixed != dict(before):
        listed = ",".join(MUTABLE)
        yield forbidden("spec", f"pod updates may not change fields other than {listed}\n{differing(fixed, before)}")


def deadline_errors(spec: Mapping[str, object], before: Mapping[str, object]) -> Iterator[FieldError]:
    """Errors for a changed active deadline, which may only decrease."""
    path, deadline, old = "spec.activeDeadlineSeconds", whole(spec, "activeDeadlineSeconds"), None
    old = whole(before, "activeDeadlineSeconds")
    if deadline is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline <= INT32_MAX:
        yield invalid(path, deadline, ranged(0, INT32_MAX))
    elif old is not None and old < deadline:
        yield invalid(path, deadline, "must be less than or equal to previous value")


def with_fixed(spec: Mapping[str, object], before: Mapping[str, object]) -> dict[str, object]:
    """A pod spec whose mutable fields have their previous values."""
    made = dict(spec)
    for field in ("containers", "initContainers"):
        if field in made:
            made[field] = [
                {**mapping(one), "image": member(other, "image")}
                for one, other in zip(items(spec, field), items(before, field), strict=True)
            ]
    free = ["activeDeadlineSeconds", "schedulingGates", "tolerations"]
    if items(before, "schedulingGates"):
        # The scheduling directives of a gated pod may still change.
        free.append("nodeSelector")
    for field in free:
        made.pop(field, None)
        if field in before:
            made[field] = before[field]
    return made


def differing(new: Mapping[str, object], old: Mapping[str, object]) -> str:
    """The fields that differ, for a message."""
    names = sorted(name for name in {*new, *old} if new.get(name) != old.get(name))
    return "  changed: " + ", ".join(f"spec.{name}" for name in names)


def quality(pod: Mapping[str, Json]) -> str:
    """The QoS class of a pod, by the requests and limits of its containers."""
    spec = mapping(pod, "spec")
    level = mapping(spec, "resources")
    held = [mapping(one, "resources") for field in ("containers", "initContainers") for _, one in mappings(spec, field)]
    if level:
        held = [level]
    asked = [(name, field) for one in held for field in ("requests", "limits") for name in mapping(one, field)]
    if not any(name in ("cpu", "memory") for name, _ in asked):
        return "BestEffort"
    return "Guaranteed" if all(map(guaranteed, held)) else "Burstable"


def guaranteed(resources: Mapping[str, object]) -> bool:
    """Whether the requests of a container equal its limits."""
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    for name in ("cpu", "memory"):
        most, asked = amount(limits.get(name)), amount(requests.get(name))
        if most is None or most.nanos == 0 or (asked is not None and asked.nanos != most.nanos):
            return False
        if asked is None:
            return False
    return True


def warnings(pod: Tree) -> Iterator[str]:
    """Warnings for the author of a new pod."""
    messages = dns_label(text(pod, "metadata", "name"))
    if messages:
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label "
            f"is recommended: [{' '.join(messages)}]"
        )
