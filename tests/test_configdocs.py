"""docs/configuration.md has every key and every gate, as the code has them."""

import pytest

from pykueue.api.config.gates import GATES
from pykueue.api.config.unbuilt import UNBUILT
from tests.configdocs import Key, key_rows, page, support
from tests.configwords import DEFAULTS, IGNORED, MEANINGS, meaning
from tests.storyfile import ROOT

KEYS = {key.path: key for key, _ in key_rows()}


def test_the_page_is_current() -> None:
    assert (ROOT / "docs/configuration.md").read_text() == page(), "write it again: make config-docs"


def test_every_key_is_explained_and_nothing_else_is() -> None:
    assert all(meaning(path).endswith(".") for path in KEYS)
    assert (MEANINGS.keys() | DEFAULTS.keys() | IGNORED) - KEYS.keys() == set()
    assert {path for path in UNBUILT if path not in KEYS} == set()


def test_every_gate_is_listed() -> None:
    assert {name for name in GATES if f"\n| `{name}` | " not in page()} == set()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("resources.deviceClassMappings[].name", "refused", id="a list that changes decisions"),
        pytest.param("multiKueue.origin", "warning", id="a section that changes none"),
        pytest.param("leaderElection.resourceLock", "ignored", id="a key without effect"),
        pytest.param("resources.transformations[].input", "yes", id="a key that is obeyed"),
        pytest.param("fairSharing.preemptionStrategies", "yes", id="a key of a section that is obeyed"),
    ],
)
def test_what_becomes_of_a_key(path: str, expected: str) -> None:
    assert support(path) == expected


def test_types_and_defaults_are_those_of_the_code() -> None:
    rows = {key.path: (key.type, default) for key, default in key_rows()}
    assert rows["waitForPodsReady.timeout"] == ("duration", "`30m0s`")
    assert rows["metrics.customLabels[].trackedValues"] == ("[string]", "")
    assert rows["resources.quotaCheckStrategy"] == ("`BlockUndeclared` or `IgnoreUndeclared`", "`BlockUndeclared`")
    assert KEYS["webhook.port"] == Key("webhook.port", "integer", "`9443`")
