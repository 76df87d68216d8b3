"""What we do not do yet is refused by its path."""

import pytest

from pykueue.api.configfile import MINIMAL, default_configuration, read_configuration
from pykueue.api.unbuilt import UNBUILT, read_built, unbuilt

ASKED = {
    "fairSharing": "fairSharing: {preemptionStrategies: [LessThanInitialShare]}",
    "admissionFairSharing": "admissionFairSharing: {usageHalfLifeTime: 1h}",
    "multiKueue": "multiKueue: {}",
    "resources.deviceClassMappings": "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}",
    "metrics.customLabels": "metrics: {customLabels: [{name: a}]}",
    "integrations.frameworks": "integrations: {frameworks: [pod]}",
    "pprofBindAddress": "pprofBindAddress: ':8083'",
    "visibilityServer": "visibilityServer: {bindPort: 9000}",
}


def refused(lines: str) -> list[str]:
    return list(map(str, unbuilt(read_configuration(MINIMAL + lines).configuration)))


def test_the_default_asks_for_nothing_unbuilt() -> None:
    assert unbuilt(default_configuration().configuration) == ()


def test_every_row_is_asked_for_here() -> None:
    assert ASKED.keys() == UNBUILT.keys()


@pytest.mark.parametrize("path", ASKED)
def test_a_row_is_refused_by_its_path(path: str) -> None:
    (sentence,) = refused(ASKED[path])
    place, forbidden, detail = sentence.split(": ", maxsplit=2)
    assert place.removesuffix("[0]") == path
    assert forbidden == "Forbidden"
    assert "; " in detail, "a refusal says what to do"


def test_each_framework_is_refused_at_its_place() -> None:
    assert refused("integrations: {frameworks: [ray.io/rayjob, batch/job, pod]}") == [
        f"integrations.frameworks[{index}]: Forbidden: this kind of job is not built yet; remove it, and keep batch/job"
        for index in (0, 2)
    ]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("visibilityServer: {bindPort: 8082}", id="the default in full"),
        pytest.param("pprofBindAddress: '0'", id="profiling turned off"),
        pytest.param("controller: {groupKindConcurrency: {Job.batch: 5}}", id="the manifest's concurrency"),
    ],
)
def test_what_changes_nothing_is_welcome(lines: str) -> None:
    assert refused(lines) == []


def told(text: str, feature_gates: str = "") -> list[str]:
    return [mistake.path for mistake in read_built(text, feature_gates=feature_gates)[1]]


def test_a_good_file_is_read() -> None:
    loaded, mistakes = read_built(MINIMAL, feature_gates="PriorityBoost=true")
    assert loaded is not None
    assert (loaded.gates.values["PriorityBoost"], mistakes) == (True, ())


def test_what_is_not_built_leaves_the_file_readable() -> None:
    loaded, mistakes = read_built(MINIMAL + "multiKueue: {}\n")
    assert loaded is not None
    assert [one.path for one in mistakes] == ["multiKueue"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(
            MINIMAL + "webhok: {}\nmultiKueue: {}\nresources: {transformations: 7}\n",
            ["webhok", "resources.transformations", "multiKueue"],
            id="beside other mistakes",
        ),
        pytest.param("kind: Configuration\nmultiKueue: {}\n", ["apiVersion", "multiKueue"], id="without a version"),
        pytest.param(
            MINIMAL.replace("v1beta2", "v1beta1") + "fairSharing: {}\nmultiKueue: {}\nnope: 1\n",
            ["nope", "multiKueue"],
            id="in an older version, less what that leaves off",
        ),
        pytest.param(MINIMAL + "multiKueue: 7\n", ["multiKueue"], id="once, though it cannot be read"),
        pytest.param(
            MINIMAL + "integrations: {frameworks: [nope]}\n",
            ["integrations.frameworks[0]"],
            id="once, as it is wrong too",
        ),
        pytest.param("multiKueue: [", [""], id="not of what is no YAML"),
        pytest.param("- multiKueue\n", [""], id="not of what is no mapping"),
    ],
)
def test_all_mistakes_come_at_once(text: str, paths: list[str]) -> None:
    assert told(text) == paths


def test_a_wrong_gate_hides_nothing() -> None:
    assert told(MINIMAL + "multiKueue: {}\n", "Nope=true") == ["--feature-gates", "multiKueue"]
