"""Settings of a Configuration that are not built yet, one row per path; delete the row when the feature is built.

A setting that changes decisions is refused: without it, jobs would be admitted otherwise than the Configuration says.
For the others there is a warning, and the manager starts, since a Configuration of Kueue must be usable here as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from pykueue.api.config.decode import Mistake, decode
from pykueue.api.config.file import (
    ConfigurationError,
    Loaded,
    Upgraded,
    completed,
    from_v1beta1,
    read_configuration,
    version_of,
)
from pykueue.api.config.gates import defaults
from pykueue.api.config.types import DEFAULT_NAMESPACE, Configuration
from pykueue.api.fields import FieldError, forbidden
from pykueue.api.jsontext import read_tree
from pykueue.base.struct import Frozen

Found: TypeAlias = Callable[[Configuration], Iterator[str]]
"""The paths below a row's at which a Configuration uses the feature."""

BUILT_FRAMEWORKS: Final = frozenset({"batch/job"})


def when(asks: Callable[[Configuration], object]) -> Found:
    """The row's own path, if the Configuration uses the feature."""

    def found(configuration: Configuration) -> Iterator[str]:
        if asks(configuration):
            yield ""

    return found


class Row(Frozen):
    """One feature that a Configuration can ask for."""

    sentence: str
    """What to tell the user."""
    found: Found
    changes_decisions: bool = False


def unbuilt_frameworks(configuration: Configuration) -> tuple[str, ...]:
    """The frameworks that are enabled but not built."""
    return tuple(name for name in configuration.integrations.frameworks if name not in BUILT_FRAMEWORKS)


UNBUILT: Final[Mapping[str, Row]] = {
    "resources.deviceClassMappings": Row(
        "dynamic resource allocation is not supported yet; remove the mappings",
        when(lambda c: c.resources.device_class_mappings),
        changes_decisions=True,
    ),
    "multiKueue": Row(
        "MultiKueue is not supported yet; ClusterQueues with a MultiKueue check admit nothing",
        when(lambda c: c.multi_kueue is not None),
    ),
    "integrations.frameworks": Row(
        "not supported yet; such jobs are not queued: they do not count against quota, and new ones start immediately",
        lambda c: iter([f": {', '.join(names)}"] if (names := unbuilt_frameworks(c)) else []),
    ),
    "pprofBindAddress": Row(
        "profiling is not supported yet; nothing is served on this address",
        when(lambda c: c.pprof_bind_address not in ("", "0")),
    ),
}
"""By path: settings of features that are not built."""


def refused(configuration: Configuration) -> tuple[FieldError, ...]:
    """One error for each unbuilt feature in use that changes decisions."""
    return tuple(
        forbidden(f"{path}{place}", row.sentence)
        for path, row in UNBUILT.items()
        if row.changes_decisions
        for place in row.found(configuration)
    )


def left_out(configuration: Configuration) -> tuple[str, ...]:
    """One sentence, with its path, for each unbuilt feature in use that changes no decision."""
    return tuple(
        f"{path}{place}: {row.sentence}"
        for path, row in UNBUILT.items()
        if not row.changes_decisions
        for place in row.found(configuration)
    )


def read_built(
    text: str | bytes, *, feature_gates: str = "", namespace: str = "", tolerate_unknown_gates: bool = False
) -> tuple[Loaded | None, tuple[Mistake, ...]]:
    """Read the Configuration in this text, if it can be read, and every mistake.

    Unbuilt features are mistakes if they change decisions, otherwise warnings. `namespace` is the default for a file
    that sets none.
    """
    try:
        loaded = read_configuration(
            text,
            feature_gates=feature_gates,
            namespace=namespace or DEFAULT_NAMESPACE,
            tolerate_unknown_gates=tolerate_unknown_gates,
        )
    except ConfigurationError as error:
        told = {mistake.path for mistake in error.mistakes}
        beside = (one for one in refused(as_far_as_read(text)) if one.path not in told)
        return None, (*error.mistakes, *beside)
    warnings = (*loaded.warnings, *left_out(loaded.configuration))
    return msgspec.structs.replace(loaded, warnings=warnings), refused(loaded.configuration)


def as_far_as_read(text: str | bytes) -> Configuration:
    """The Configuration as far as the text can be read, with defaults for the rest."""
    passed_over: list[Mistake] = []
    value = read_tree(text).value
    if not isinstance(value, dict):
        return Configuration()
    tree = {key: entry for key, entry in value.items() if key not in ("apiVersion", "kind")}
    old = version_of(value, passed_over) == "v1beta1"
    upgraded = from_v1beta1(tree, passed_over) if old else Upgraded(tree, frozenset())
    found = decode(dict(upgraded.tree), Configuration, passed_over, also=("apiVersion", "kind"))
    return completed(found, upgraded.off, defaults())
