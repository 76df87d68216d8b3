"""Pod templates as the auditor reads them: what decides how much a pod takes, and on which nodes it may run."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from pykueue.api.core import Labels, Toleration
from pykueue.base.struct import Wire

Amounts = Mapping[str, str | int | float]


class Resources(Wire):
    """Requests and limits, as they are written."""

    requests: Amounts = {}
    limits: Amounts = {}


class Container(Wire):
    """A container; among the init containers, one that is always restarted is a sidecar."""

    resources: Resources = Resources()
    restart_policy: str = ""


class PodSpec(Wire):
    """The parts of a pod that count."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Amounts = {}
    resources: Resources = Resources()
    resource_claims: tuple[object, ...] = ()
    runtime_class_name: str = ""
    node_selector: Labels = {}
    affinity: object = None
    tolerations: tuple[Toleration, ...] = ()


class Template(Wire):
    """The template of a pod."""

    spec: PodSpec = PodSpec()


def pod_spec(raw: bytes | msgspec.Raw) -> PodSpec | None:
    """The pod that a template describes; None if it cannot be read."""
    return read_template(bytes(raw))


@lru_cache(maxsize=4096)
def read_template(text: bytes) -> PodSpec | None:
    """The pod that a template describes; a null is an absent field."""
    try:
        return msgspec.convert(without_nulls(msgspec.json.decode(text)), Template).spec
    except msgspec.DecodeError:
        return None


def without_nulls(tree: object) -> object:
    """The tree without null members."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    return [without_nulls(value) for value in tree] if isinstance(tree, list) else tree
