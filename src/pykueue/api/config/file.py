"""Read the Configuration file: text to a complete Configuration, gates and warnings, or the list of all mistakes.

Reading is strict: an unknown or duplicate key is a mistake with its path. A v1beta1 file is accepted too, with the
defaults of that version.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from pykueue.api.config.decode import Mistake, brief, decode, wrong
from pykueue.api.config.gates import Resolved, parse_gates, resolve
from pykueue.api.config.rules import FINAL_SHARE, INITIAL_SHARE, violations
from pykueue.api.config.types import (
    DEFAULT_NAMESPACE,
    GROUP,
    KIND,
    SYSTEM_NAMESPACE,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    Configuration,
    WaitForPodsReady,
    everywhere_but,
)
from pykueue.api.core import Json
from pykueue.api.durations import DurationError, parse_duration
from pykueue.api.fields import invalid, required
from pykueue.api.jsontext import read_tree
from pykueue.api.trees import member
from pykueue.api.yamltext import Misread
from pykueue.base.struct import Frozen

Version = Literal["v1beta1", "v1beta2"]
CURRENT: Final = f"{GROUP}/v1beta2"
VERSIONS: Final[Mapping[str, Version]] = {CURRENT: "v1beta2", f"{GROUP}/v1beta1": "v1beta1"}
MINIMAL: Final = f"apiVersion: {CURRENT}\nkind: {KIND}\n"
OLD_TIMEOUT: Final = "5m"
GATES_PATH: Final = "featureGates"

SINCE_V1BETA2: Final = (
    ("visibilityServer",),
    ("multiKueue", "clusterProfile"),
    ("multiKueue", "incrementalDispatcherConfig"),
    ("resources", "quotaCheckStrategy"),
    ("resources", "deviceClassMappings", "[]", "sources"),
    ("metrics", "customLabels", "[]", "sourceKind"),
    ("metrics", "customLabels", "[]", "trackedValues"),
)
"""Paths that a v1beta1 file cannot have; `[]` stands for each item of a list."""
DROPPED: Final[Mapping[tuple[str, ...], str]] = {
    ("integrations", "podOptions"): "choose namespaces with managedJobsNamespaceSelector instead",
    ("queueVisibility",): "ask the visibility API for pending workloads instead",
}
"""Paths that only v1beta1 has and that have no effect any more, with their replacements."""
SWITCHED: Final = ("waitForPodsReady", "fairSharing")
"""Sections that v1beta1 enables by a field `enable`, and v1beta2 by their presence."""


class Loaded(Frozen):
    """A complete Configuration, its gates, and the warnings for its author."""

    configuration: Configuration
    gates: Resolved
    warnings: tuple[str, ...] = ()


class ConfigurationError(ValueError):
    """A Configuration that cannot be used, with all reasons."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


class Upgraded(Frozen):
    """A v1beta1 tree converted to v1beta2, and which of its switched sections are off."""

    tree: Mapping[str, Json]
    off: frozenset[str]
    warnings: tuple[str, ...] = ()


def default_configuration(*, feature_gates: str = "", namespace: str = DEFAULT_NAMESPACE) -> Loaded:
    """The Configuration that applies without a file."""
    return read_configuration(MINIMAL, feature_gates=feature_gates, namespace=namespace)


def read_configuration(
    text: str | bytes,
    *,
    feature_gates: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    tolerate_unknown_gates: bool = False,
) -> Loaded:
    """Read the Configuration in this text; raises ConfigurationError with all mistakes.

    `feature_gates` is the flag of that name; `namespace` is the default for a file that sets none.
    """
    read = read_tree(text)
    mistakes: list[Mistake] = list(read.mistakes)
    if read.value is None and mistakes:
        raise ConfigurationError(tuple(mistakes))
    version = version_of(read.value, mistakes)
    if version is None or not isinstance(read.value, dict):
        raise ConfigurationError(tuple(mistakes))
    tree = {key: value for key, value in read.value.items() if key not in ("apiVersion", "kind")}
    upgraded = from_v1beta1(tree, mistakes) if version == "v1beta1" else Upgraded(tree, frozenset())
    configuration = decode(dict(upgraded.tree), Configuration, mistakes, also=("apiVersion", "kind"))
    gates = gates_of(configuration, tree, feature_gates, mistakes, tolerate_unknown=tolerate_unknown_gates)
    present = member(dict(upgraded.tree), "waitForPodsReady") is not None
    said = [*upgraded.warnings, *gates.warnings, *idle(configuration, gates.values, present=present)]
    if member(tree, "namespace") is None:
        configuration = msgspec.structs.replace(configuration, namespace=namespace)
    whole = completed(configuration, upgraded.off, gates.values)
    # Fields that could not be read hold defaults now; errors about those would mislead.
    misread = {outer for mistake in mistakes for outer in outers(mistake.path)}
    mistakes += (error for error in violations(whole, gates.values) if error.path not in misread)
    if mistakes:
        raise ConfigurationError(tuple(mistakes))
    return Loaded(whole, gates, tuple(said))


def version_of(tree: Json, mistakes: list[Mistake]) -> Version | None:
    """The version that the file names."""
    if not isinstance(tree, dict):
        mistakes.append(
            Misread("", f"the file is not a mapping; begin it with `apiVersion: {CURRENT}` and `kind: {KIND}`")
        )
        return None
    kind, api_version = tree.get("kind"), tree.get("apiVersion")
    if kind is None:
        mistakes.append(required("kind", f"write `kind: {KIND}`"))
    elif kind != KIND:
        mistakes.append(invalid("kind", brief(kind), f"write `kind: {KIND}`; is it the right file?"))
    if api_version is None:
        mistakes.append(required("apiVersion", f"write `apiVersion: {CURRENT}`"))
        return None
    version = VERSIONS.get(api_version) if isinstance(api_version, str) else None
    if version is None:
        mistakes.append(invalid("apiVersion", brief(api_version), f"write `apiVersion: {CURRENT}`"))
    return version


def gates_of(
    configuration: Configuration, tree: Json, flag: str, mistakes: list[Mistake], *, tolerate_unknown: bool
) -> Resolved:
    """The gates that the file or the flag sets; setting both is a mistake."""
    asked = parse_gates(flag)
    wishes: Mapping[str, bool] = configuration.feature_gates
    if flag:
        wishes = asked.values
        mistakes += (Misread("--feature-gates", error) for error in asked.errors)
    if flag and member(tree, GATES_PATH) is not None:
        detail = "feature gates for CLI and configuration cannot both specified; keep one of the two"
        mistakes.append(invalid(GATES_PATH, dict(sorted(configuration.feature_gates.items())), detail))
    gates = resolve(wishes, tolerate_unknown=tolerate_unknown)
    mistakes += (Misread("--feature-gates" if flag else GATES_PATH, error) for error in gates.errors)
    return gates


def idle(configuration: Configuration, gates: Mapping[str, bool], *, present: bool) -> Iterator[str]:
    """A sentence for each setting that a gate makes ineffective."""
    if gates["DisableWaitForPodsReady"] and present:
        yield "waitForPodsReady: ignored while the feature gate DisableWaitForPodsReady is on; remove one of the two"
    if configuration.resources.quota_check_strategy == "IgnoreUndeclared" and not gates["QuotaCheckStrategy"]:
        yield "resources.quotaCheckStrategy: ignored while the feature gate QuotaCheckStrategy is off; turn it on"
    if configuration.metrics.custom_labels and not gates["CustomMetricLabels"]:
        yield "metrics.customLabels: ignored while the feature gate CustomMetricLabels is off; turn it on"


def completed(configuration: Configuration, off: frozenset[str], gates: Mapping[str, bool]) -> Configuration:
    """The Configuration with the defaults that depend on other settings."""
    waiting = configuration.wait_for_pods_ready
    if gates["DisableWaitForPodsReady"] or "waitForPodsReady" in off:
        waiting = None
    elif waiting is None:
        waiting = WaitForPodsReady()
    if waiting is not None and waiting.recovery_timeout is None:
        waiting = msgspec.structs.replace(waiting, recovery_timeout=waiting.timeout)
    certificates = configuration.internal_cert_management
    if certificates.enable:
        service, secret = certificates.webhook_service_name, certificates.webhook_secret_name
        certificates = msgspec.structs.replace(
            certificates,
            webhook_service_name=WEBHOOK_SERVICE if service is None else service,
            webhook_secret_name=WEBHOOK_SECRET if secret is None else secret,
        )
    selector = configuration.managed_jobs_namespace_selector
    return msgspec.structs.replace(
        configuration,
        wait_for_pods_ready=waiting,
        fair_sharing=None if "fairSharing" in off else configuration.fair_sharing,
        internal_cert_management=certificates,
        managed_jobs_namespace_selector=selector or everywhere_but(SYSTEM_NAMESPACE, configuration.namespace),
    )


def from_v1beta1(tree: Mapping[str, Json], mistakes: list[Mistake]) -> Upgraded:
    """Convert a v1beta1 tree to v1beta2, with the defaults of v1beta1 where they differ."""
    said = [f"apiVersion: {GROUP}/v1beta1 is deprecated; write {CURRENT}, where waitForPodsReady is on by default"]
    newer = f"unknown field in v1beta1; write `apiVersion: {CURRENT}` to use it"
    mistakes += (Misread(path, newer) for later in SINCE_V1BETA2 for path in places(dict(tree), later))
    upgraded: Json = dict(tree)
    for keys, advice in DROPPED.items():
        if member(upgraded, *keys) is not None:
            said.append(f"{'.'.join(keys)}: has no effect any more; {advice}")
        upgraded = without(upgraded, keys)
    off: set[str] = set()
    for section in SWITCHED:
        switch = member(upgraded, section, "enable")
        if switch is not None and not isinstance(switch, bool):
            wrong(switch, f"{section}.enable", "true or false", mistakes)
        if switch is not True:
            off.add(section)
            if isinstance(rest := member(upgraded, section), dict) and rest.keys() - {"enable"}:
                said.append(f"{section}: ignored, as {section}.enable is not true")
        upgraded = without(upgraded, (section, "enable"))
    assert isinstance(upgraded, dict), "taking entries out of a mapping leaves a mapping"
    return Upgraded(old_defaults(upgraded, off, mistakes), frozenset(off), tuple(said))


def old_defaults(tree: dict[str, Json], off: set[str], mistakes: list[Mistake]) -> dict[str, Json]:
    """The tree with the defaults of v1beta1 for the sections that it enables."""
    waiting, sharing = tree.get("waitForPodsReady"), tree.get("fairSharing")
    if isinstance(waiting, dict) and "waitForPodsReady" not in off:
        given = {key: value for key, value in waiting.items() if value is not None}
        tree = {**tree, "waitForPodsReady": {"timeout": OLD_TIMEOUT, "blockAdmission": True, **given}}
        # Zero means the default only in v1beta2.
        if is_zero(given.get("timeout")):
            mistakes.append(required("waitForPodsReady.timeout", "must be specified"))
    if isinstance(sharing, dict) and "fairSharing" not in off and not sharing.get("preemptionStrategies"):
        tree = {**tree, "fairSharing": {**sharing, "preemptionStrategies": [FINAL_SHARE, INITIAL_SHARE]}}
    return tree


def is_zero(value: Json) -> bool:
    """Whether the value is a zero duration."""
    try:
        return isinstance(value, str) and parse_duration(value) == 0
    except DurationError:
        return False


def outers(path: str) -> Iterator[str]:
    """The path and all its parents."""
    yield path
    yield from (path[:place] for place, character in enumerate(path) if character in ".[")


def without(tree: Json, keys: tuple[str, ...]) -> Json:
    """The tree without the entry at this path of keys."""
    if not isinstance(tree, dict) or keys[0] not in tree:
        return tree
    if len(keys) == 1:
        return {key: value for key, value in tree.items() if key != keys[0]}
    return {**tree, keys[0]: without(tree[keys[0]], keys[1:])}


def places(tree: Json, keys: tuple[str, ...], path: str = "") -> Iterator[str]:
    """The paths matching these keys at which the tree has a value."""
    if not keys:
        if tree is not None:
            yield path
    elif keys[0] == "[]":
        for index, item in enumerate(tree if isinstance(tree, list) else []):
            yield from places(item, keys[1:], f"{path}[{index}]")
    else:
        yield from places(member(tree, keys[0]), keys[1:], f"{path}.{keys[0]}" if path else keys[0])
