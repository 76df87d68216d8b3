"""What of a Configuration do we not do yet? One row per path; whoever builds a thing deletes its row."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from pykueue.api.config import DEFAULT_NAMESPACE, Configuration, VisibilityServer
from pykueue.api.configdecode import Mistake, decode
from pykueue.api.configfile import (
    ConfigurationError,
    Loaded,
    Upgraded,
    completed,
    from_v1beta1,
    read_configuration,
    version_of,
)
from pykueue.api.fields import FieldError, forbidden
from pykueue.api.gates import defaults
from pykueue.api.yamltext import read_tree

Found: TypeAlias = Callable[[Configuration], Iterator[str]]
"""The paths, of those below a row's, at which a Configuration asks for the thing."""

BUILT_FRAMEWORKS: Final = frozenset({"batch/job"})


def when(asks: Callable[[Configuration], object]) -> Found:
    """Found at the row's own path, where the Configuration asks for it."""

    def found(configuration: Configuration) -> Iterator[str]:
        if asks(configuration):
            yield ""

    return found


def other_frameworks(configuration: Configuration) -> Iterator[str]:
    """Each framework that is not among those we queue."""
    for index, framework in enumerate(configuration.integrations.frameworks):
        if framework not in BUILT_FRAMEWORKS:
            yield f"[{index}]"


UNBUILT: Final[Mapping[str, tuple[str, Found]]] = {
    "fairSharing": (
        "preemption by share is not built yet; remove the section",
        when(lambda c: c.fair_sharing is not None),
    ),
    "admissionFairSharing": (
        "ordering by past use is not built yet; remove the section",
        when(lambda c: c.admission_fair_sharing is not None),
    ),
    "multiKueue": (
        "sending workloads to other clusters is not built yet; remove the section",
        when(lambda c: c.multi_kueue is not None),
    ),
    "resources.deviceClassMappings": (
        "counting devices is not built yet; remove the mappings",
        when(lambda c: c.resources.device_class_mappings),
    ),
    "metrics.customLabels": (
        "labels of your own on metrics are not built yet; remove them",
        when(lambda c: c.metrics.custom_labels),
    ),
    "integrations.frameworks": (
        f"this kind of job is not built yet; remove it, and keep {', '.join(sorted(BUILT_FRAMEWORKS))}",
        other_frameworks,
    ),
    "pprofBindAddress": (
        "there is no profiling server; remove the address",
        when(lambda c: c.pprof_bind_address not in ("", "0")),
    ),
    "visibilityServer": (
        "serving the list of pending workloads elsewhere than by default is not built yet; remove the section",
        when(lambda c: c.visibility_server != VisibilityServer()),
    ),
}
"""Each path with what to tell the user, and where it is asked for."""


def unbuilt(configuration: Configuration) -> tuple[FieldError, ...]:
    """One error for each thing that the Configuration asks for and we do not do yet."""
    return tuple(
        forbidden(f"{path}{place}", sentence)
        for path, (sentence, found) in UNBUILT.items()
        for place in found(configuration)
    )


def read_built(
    text: str | bytes, *, feature_gates: str = "", namespace: str = ""
) -> tuple[Loaded | None, tuple[Mistake, ...]]:
    """The Configuration that the text holds, if it can be read, and every mistake, with what is not built beside.

    `namespace` is where we run, if that is known, for a file that does not say.
    """
    try:
        loaded = read_configuration(text, feature_gates=feature_gates, namespace=namespace or DEFAULT_NAMESPACE)
    except ConfigurationError as error:
        told = {mistake.path for mistake in error.mistakes}
        beside = (one for one in unbuilt(as_far_as_read(text)) if one.path not in told)
        return None, (*error.mistakes, *beside)
    return loaded, unbuilt(loaded.configuration)


def as_far_as_read(text: str | bytes) -> Configuration:
    """The Configuration as far as the text can be read; what cannot be holds its default."""
    passed_over: list[Mistake] = []
    value = read_tree(text).value
    if not isinstance(value, dict):
        return Configuration()
    tree = {key: entry for key, entry in value.items() if key not in ("apiVersion", "kind")}
    old = version_of(value, passed_over) == "v1beta1"
    upgraded = from_v1beta1(tree, passed_over) if old else Upgraded(tree, frozenset())
    found = decode(dict(upgraded.tree), Configuration, passed_over, also=("apiVersion", "kind"))
    return completed(found, upgraded.off, defaults())
