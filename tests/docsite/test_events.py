"""docs/events.md has every Event that the code writes, and no other."""

import ast

from tests.docsite.events import Written, calls, is_warning, page, place_of, types, written
from tests.docsite.eventwords import COMPUTED, MEANINGS
from tests.storyfile import ROOT


def test_the_page_is_current() -> None:
    assert (ROOT / "docs/events.md").read_text() == page(), "write it again: make docs"


def test_every_event_is_explained_and_nothing_else_is() -> None:
    explained = [meaning.reason for _, _, meanings in MEANINGS for meaning in meanings]
    assert set(explained) == set(types())
    assert all(meaning.text.endswith((".", "`.")) for _, _, meanings in MEANINGS for meaning in meanings)


def test_every_entry_for_an_expression_is_used() -> None:
    source = ROOT / "src/pykueue"
    used = {
        (call.module, call.reason, call.warning)
        for module in source.rglob("*.py")
        for call in calls(module)
        if call.computed
    }
    assert used == set(COMPUTED)


def test_calls_that_write_events_are_found() -> None:
    found = list(written())
    assert Written("jobs/activation.py", "Held", False, False) in found
    assert Written("controllers/provisioning.py", "FailedCreate", False, True) in found
    assert Written("node/hooks.py", "Unhealthy", False, True) in found
    assert Written("kubecontrollers/scheduler.py", "FailedScheduling", False, True) in found


def call(text: str) -> ast.Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    return node


def test_other_calls_write_none() -> None:
    assert place_of(call("LOG.warning('x', 1)").func, "jobs/plan.py") is None
    assert place_of(call("Notice(about, reason, note)").func, "node/runner.py") is None
    assert place_of(call("Notice('Held', 'x')").func, "jobs/plan.py") == 0


def test_whether_it_is_a_warning() -> None:
    assert is_warning(call("self.events.warning(a, 'B', c)"))
    assert is_warning(call("Notice('A', b, warning=True)"))
    assert is_warning(call("Notice('A', b, warning=never)")) is None
    assert is_warning(call("Notice('A', b)")) is False
