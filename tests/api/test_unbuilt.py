"""What we do not do yet is refused by its path."""

import pytest

from pykueue.api.configfile import MINIMAL, default_configuration, read_configuration
from pykueue.api.unbuilt import UNBUILT, unbuilt

ASKED = {
    "fairSharing": "fairSharing: {preemptionStrategies: [LessThanInitialShare]}",
    "admissionFairSharing": "admissionFairSharing: {usageHalfLifeTime: 1h}",
    "multiKueue": "multiKueue: {}",
    "resources.deviceClassMappings": "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}",
    "metrics.customLabels": "metrics: {customLabels: [{name: a}]}",
    "metrics.localQueueMetrics.localQueueSelector": "metrics: {localQueueMetrics: {localQueueSelector: {}}}",
    "integrations.frameworks": "integrations: {frameworks: [pod]}",
    "integrations.externalFrameworks": "integrations: {externalFrameworks: [A.b.c]}",
    "pprofBindAddress": "pprofBindAddress: ':8083'",
    "tls": "tls: {minVersion: VersionTLS13}",
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
        pytest.param("tls: {}", id="demands that we meet anyway"),
        pytest.param("visibilityServer: {bindPort: 8082}", id="the default in full"),
        pytest.param("pprofBindAddress: '0'", id="profiling turned off"),
        pytest.param("controller: {groupKindConcurrency: {Job.batch: 5}}", id="the manifest's concurrency"),
    ],
)
def test_what_changes_nothing_is_welcome(lines: str) -> None:
    assert refused(lines) == []
