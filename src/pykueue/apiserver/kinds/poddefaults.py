"""Defaults of pods and pod templates."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, cast

from pykueue.api.core import Json, Tree
from pykueue.base.units import Quantity, QuantityError, canonical, parse_quantity

REPOSITORY: Final = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
MILLI_NANOS: Final = 1_000_000
FILE_MODE: Final = 0o644
SPEC: Final[Mapping[str, Json]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
PROBE: Final[Mapping[str, Json]] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
SOURCES: Final[Mapping[str, Mapping[str, Json]]] = {
    "secret": {"defaultMode": FILE_MODE},
    "configMap": {"defaultMode": FILE_MODE},
    "downwardAPI": {"defaultMode": FILE_MODE},
    "projected": {"defaultMode": FILE_MODE},
    "hostPath": {"type": ""},
}


def as_tree(value: Json) -> Tree:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def each(value: Json, change: Callable[[Tree], Tree]) -> list[Json]:
    """The list with each object changed; other items stay."""
    return [change(one) if isinstance(one, dict) else one for one in as_list(value)]


def default_pod(pod: Tree) -> Tree:
    """A pod with its defaults."""
    spec = default_spec(as_tree(pod.get("spec")))
    for name in CONTAINERS[:2]:
        if name in spec:
            spec[name] = each(spec[name], requests_from_limits)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork") is True:
        for name in CONTAINERS[:2]:
            if name in spec:
                spec[name] = each(spec[name], host_ports)
    return {**pod, "spec": spec}


def default_template(template: Tree) -> Tree:
    """A pod template with its defaults, except those that only a pod gets."""
    return {**template, "spec": default_spec(as_tree(template.get("spec")))}


def default_spec(spec: Tree) -> Tree:
    """A pod spec with the defaults that pods and templates share; a new tree, whose lists may be modified."""
    made = {**spec}
    for name, value in SPEC.items():
        if not made.get(name) and made.get(name) != 0:
            made[name] = value
    if not isinstance(made.get("securityContext"), dict):
        made["securityContext"] = {}
    for name in CONTAINERS:
        if name in made:
            made[name] = each(made[name], default_container)
    if "volumes" in made:
        made["volumes"] = each(made["volumes"], default_volume)
    if isinstance(made.get("overhead"), dict):
        made["overhead"] = rounded(as_tree(made["overhead"]))
    if isinstance(made.get("resources"), dict):
        made["resources"] = default_resources(as_tree(made["resources"]))
    account = made.get("serviceAccountName") or made.get("serviceAccount")
    if account:
        made["serviceAccountName"] = made["serviceAccount"] = account
    return made


def default_container(container: Tree) -> Tree:
    """A container with its defaults."""
    made = {**container}
    image = container.get("image")
    if not made.get("imagePullPolicy"):
        made["imagePullPolicy"] = pull_policy(image if isinstance(image, str) else "")
    if not made.get("terminationMessagePath"):
        made["terminationMessagePath"] = "/dev/termination-log"
    if not made.get("terminationMessagePolicy"):
        made["terminationMessagePolicy"] = "File"
    made["resources"] = default_resources(as_tree(made.get("resources")))
    if "ports" in made:
        made["ports"] = each(made["ports"], lambda port: {**port, "protocol": port.get("protocol") or "TCP"})
    for name in PROBES:
        if isinstance(made.get(name), dict):
            made[name] = default_probe(as_tree(made[name]))
    if isinstance(made.get("lifecycle"), dict):
        made["lifecycle"] = {name: default_action(as_tree(hook)) for name, hook in as_tree(made["lifecycle"]).items()}
    if "env" in made:
        made["env"] = each(made["env"], default_variable)
    return made


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """The default pull policy: Always for the tag `latest` or no tag, else IfNotPresent."""
    path, _, digest = image.partition("@")
    head, _, last = path.rpartition("/")
    name, colon, tag = last.partition(":")
    known = REPOSITORY.fullmatch(name) is not None and (not head or head == head.lower() or ":" in head or "." in head)
    if not known or digest:
        return "Always" if known and tag == "latest" else "IfNotPresent"
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def default_resources(resources: Tree) -> Tree:
    """Requests and limits in canonical form."""
    if not resources:
        return resources
    made = {**resources}
    for name in ("limits", "requests"):
        if isinstance(made.get(name), dict):
            made[name] = rounded(as_tree(made[name]))
    return made


def rounded(amounts: Tree) -> Tree:
    """Amounts rounded up to thousandths, as kube-apiserver writes them; invalid ones stay."""
    return {name: amount(value) for name, value in amounts.items()}


def amount(value: Json) -> Json:
    """An amount in canonical form, rounded up to thousandths."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    return amount_text(str(value)) or value


@lru_cache(maxsize=4096)
def amount_text(text: str) -> str:
    """An amount in canonical form; empty if it is invalid."""
    try:
        found = parse_quantity(text)
    except QuantityError:
        return ""
    if found.nanos % MILLI_NANOS:
        found = Quantity(-(-found.nanos // MILLI_NANOS) * MILLI_NANOS, found.family)
    return canonical(found)


def spelled(value: Json) -> Json:
    """An amount in canonical form."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return canonical(parse_quantity(str(value)))
    except QuantityError:
        return value


def default_probe(probe: Tree) -> Tree:
    """A probe with its defaults."""
    made = default_action(probe)
    for name, value in PROBE.items():
        if not made.get(name):
            made[name] = value
    if isinstance(made.get("grpc"), dict):
        made["grpc"] = {"service": "", **as_tree(made["grpc"])}
    return made


def default_action(action: Tree) -> Tree:
    """The action of a probe or hook with its defaults."""
    request = action.get("httpGet")
    if not isinstance(request, dict):
        return {**action}
    return {
        **action,
        "httpGet": {**request, "path": request.get("path") or "/", "scheme": request.get("scheme") or "HTTP"},
    }


def default_variable(variable: Tree) -> Tree:
    """An environment variable with its defaults."""
    source = variable.get("valueFrom")
    if not isinstance(source, dict):
        return variable
    made = {**source}
    if isinstance(made.get("fieldRef"), dict):
        made["fieldRef"] = {"apiVersion": "v1", **as_tree(made["fieldRef"])}
    if isinstance(made.get("resourceFieldRef"), dict):
        made["resourceFieldRef"] = default_divisor(as_tree(made["resourceFieldRef"]))
    if isinstance(made.get("fileKeyRef"), dict):
        made["fileKeyRef"] = {"optional": False, **as_tree(made["fileKeyRef"])}
    return {**variable, "valueFrom": made}


def default_divisor(reference: Tree) -> Tree:
    """A resource field reference with its default divisor, 0."""
    return {**reference, "divisor": spelled(reference.get("divisor") or "0")}


def default_volume(volume: Tree) -> Tree:
    """A volume with its defaults."""
    made = {**volume}
    if not any(isinstance(value, dict) for value in made.values()):
        made["emptyDir"] = {}
    for name, defaults in SOURCES.items():
        if isinstance(made.get(name), dict):
            made[name] = {**defaults, **as_tree(made[name])}
    held = made.get("emptyDir")
    if isinstance(held, dict) and "sizeLimit" in held:
        made["emptyDir"] = {**held, "sizeLimit": spelled(held["sizeLimit"])}
    if isinstance(made.get("downwardAPI"), dict):
        made["downwardAPI"] = with_items(as_tree(made["downwardAPI"]))
    if isinstance(made.get("projected"), dict):
        projected = as_tree(made["projected"])
        made["projected"] = {**projected, "sources": each(projected.get("sources"), default_projection) or None}
    return made


def with_items(source: Tree) -> Tree:
    """Downward API items with their defaults."""
    if "items" not in source:
        return source

    def change(item: Tree) -> Tree:
        made = {**item}
        if isinstance(made.get("fieldRef"), dict):
            made["fieldRef"] = {"apiVersion": "v1", **as_tree(made["fieldRef"])}
        if isinstance(made.get("resourceFieldRef"), dict):
            made["resourceFieldRef"] = default_divisor(as_tree(made["resourceFieldRef"]))
        return made

    return {**source, "items": each(source["items"], change)}


def default_projection(source: Tree) -> Tree:
    """A projected source with its defaults."""
    made = {**source}
    if isinstance(made.get("serviceAccountToken"), dict):
        made["serviceAccountToken"] = {"expirationSeconds": 3600, **as_tree(made["serviceAccountToken"])}
    if isinstance(made.get("downwardAPI"), dict):
        made["downwardAPI"] = with_items(as_tree(made["downwardAPI"]))
    return made


def requests_from_limits(container: Tree) -> Tree:
    """A container whose missing requests equal its limits."""
    resources = as_tree(container.get("resources"))
    limits = resources.get("limits")
    if not isinstance(limits, dict):
        return container
    requests = {**limits, **as_tree(resources.get("requests"))}
    return {**container, "resources": {**resources, "requests": cast("Json", requests)}}


def host_ports(container: Tree) -> Tree:
    """A container whose missing host ports equal its container ports."""
    if "ports" not in container:
        return container
    return {
        **container,
        "ports": each(container["ports"], lambda port: {"hostPort": port.get("containerPort"), **port}),
    }
