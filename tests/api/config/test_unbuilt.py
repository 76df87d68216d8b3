"""A feature that is not built is refused if it changes decisions; otherwise it is a warning."""

import pytest

from pykueue.api.config.file import MINIMAL, default_configuration, read_configuration
from pykueue.api.config.unbuilt import UNBUILT, left_out, read_built, refused
from tests.kueueconfig import ADDED, DECIDING, SHIPPED, shipped_with

FRAMEWORKS = (
    "kubeflow.org/mpijob, ray.io/rayjob, ray.io/raycluster, ray.io/rayservice, jobset.x-k8s.io/jobset, "
    "workload.codeflare.dev/appwrapper, trainer.kubeflow.org/trainjob, pod, deployment, statefulset, "
    "leaderworkerset.x-k8s.io/leaderworkerset"
)


DEVICES = "resources.deviceClassMappings"


def refusals(lines: str) -> list[str]:
    return list(map(str, refused(read_configuration(MINIMAL + lines).configuration)))


def warnings(lines: str) -> list[str]:
    return list(left_out(read_configuration(MINIMAL + lines).configuration))


def test_the_default_asks_for_nothing_unbuilt() -> None:
    assert (refused(default_configuration().configuration), left_out(default_configuration().configuration)) == ((), ())


def test_every_row_is_asked_for_here() -> None:
    assert {path for path, row in UNBUILT.items() if row.changes_decisions} == DECIDING.keys()
    rest = {path for path, row in UNBUILT.items() if not row.changes_decisions}
    assert rest == {*ADDED, "integrations.frameworks"}


@pytest.mark.parametrize("path", DECIDING)
def test_what_changes_decisions_is_refused_by_its_path(path: str) -> None:
    (sentence,) = refusals(DECIDING[path])
    place, forbidden, detail = sentence.split(": ", maxsplit=2)
    assert (place, forbidden) == (path, "Forbidden")
    assert "; " in detail, "a refusal says what to do"
    assert warnings(DECIDING[path]) == []


@pytest.mark.parametrize("path", ADDED)
def test_what_changes_no_decision_is_a_warning_with_its_path(path: str) -> None:
    (sentence,) = warnings(ADDED[path])
    place, _, detail = sentence.partition(": ")
    assert place == path
    assert "; " in detail, "a warning says what follows"
    assert refusals(ADDED[path]) == []


def test_kueues_shipped_configuration_can_be_used() -> None:
    loaded, mistakes = read_built(SHIPPED)
    assert mistakes == ()
    assert loaded is not None
    assert loaded.warnings == (
        f"integrations.frameworks: {FRAMEWORKS}: not supported yet; such jobs are not queued: "
        "they do not count against quota, and new ones start immediately",
    )
    assert len(loaded.configuration.integrations.frameworks) == 12


@pytest.mark.parametrize("path", ADDED)
def test_kueues_shipped_configuration_can_be_used_with_more(path: str) -> None:
    loaded, mistakes = read_built(shipped_with(ADDED[path]))
    assert mistakes == ()
    assert loaded is not None
    assert sorted(warning.partition(": ")[0] for warning in loaded.warnings) == sorted(
        ["integrations.frameworks", path]
    )


@pytest.mark.parametrize("path", DECIDING)
def test_kueues_shipped_configuration_is_refused_with_what_changes_decisions(path: str) -> None:
    _, mistakes = read_built(shipped_with(DECIDING[path]))
    assert [mistake.path for mistake in mistakes] == [path]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("visibilityServer: {bindPort: 8082}", id="the default in full"),
        pytest.param("pprofBindAddress: '0'", id="profiling turned off"),
        pytest.param("controller: {groupKindConcurrency: {Job.batch: 5}}", id="the manifest's concurrency"),
    ],
)
def test_what_changes_nothing_is_welcome(lines: str) -> None:
    assert (refusals(lines), warnings(lines)) == ([], [])


def told(text: str, feature_gates: str = "") -> list[str]:
    return [mistake.path for mistake in read_built(text, feature_gates=feature_gates)[1]]


def test_a_good_file_is_read() -> None:
    loaded, mistakes = read_built(MINIMAL, feature_gates="PriorityBoost=true")
    assert loaded is not None
    assert (loaded.gates.values["PriorityBoost"], mistakes) == (True, ())


def test_what_is_not_built_leaves_the_file_readable() -> None:
    loaded, mistakes = read_built(MINIMAL + DECIDING[DEVICES])
    assert loaded is not None
    assert [one.path for one in mistakes] == [DEVICES]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(
            f"{MINIMAL}webhok: {{}}\nclientConnection: {{qps: many}}\n{DECIDING[DEVICES]}",
            ["webhok", "clientConnection.qps", DEVICES],
            id="beside other mistakes",
        ),
        pytest.param(
            f"kind: Configuration\n{DECIDING[DEVICES]}",
            ["apiVersion", DEVICES],
            id="without a version",
        ),
        pytest.param(
            MINIMAL.replace("v1beta2", "v1beta1")
            + "fairSharing: {}\nresources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\nnope: 1\n",
            ["nope", "resources.deviceClassMappings"],
            id="in an older version, less what that leaves off",
        ),
        pytest.param(MINIMAL + "fairSharing: 7\n", ["fairSharing"], id="once, though it cannot be read"),
        pytest.param(
            MINIMAL + "integrations: {frameworks: [nope]}\n",
            ["integrations.frameworks[0]"],
            id="once, as it is wrong too",
        ),
        pytest.param("fairSharing: [", [""], id="not of what is no YAML"),
        pytest.param("- fairSharing\n", [""], id="not of what is no mapping"),
    ],
)
def test_all_mistakes_come_at_once(text: str, paths: list[str]) -> None:
    assert told(text) == paths


def test_unknown_gates_can_be_tolerated() -> None:
    loaded, mistakes = read_built(MINIMAL + "featureGates: {Nope: true}\n", tolerate_unknown_gates=True)
    assert mistakes == ()
    assert loaded is not None
    assert loaded.warnings == ("ignoring unrecognized feature gate: Nope; remove it",)


def test_a_wrong_gate_hides_nothing() -> None:
    assert told(MINIMAL + DECIDING[DEVICES], "Nope=true") == ["--feature-gates", DEVICES]
