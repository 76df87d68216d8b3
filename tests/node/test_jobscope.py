"""Is the fork server started in a scope of its own when the unit of the server asks for that?"""

from pykueue.node.jobscope import SLICE, scoped

COMMAND = ["python", "-c", "pass"]


def test_without_a_slice_the_command_stays_as_it_is() -> None:
    assert scoped(COMMAND, {}) == COMMAND


def test_with_a_slice_it_runs_in_a_new_scope_each_time() -> None:
    first, second = (scoped(COMMAND, {SLICE: "pykueue-jobs.slice"}, root=True) for _ in range(2))
    assert first[:2] == ["systemd-run", "--scope"]
    assert {"--slice=pykueue-jobs.slice", "--property=Delegate=yes", "--collect"} <= set(first)
    assert first[first.index("--") + 1 :] == COMMAND
    assert first != second


def test_a_user_asks_their_own_manager() -> None:
    assert scoped(COMMAND, {SLICE: "pykueue-jobs.slice"}, root=False)[:2] == ["systemd-run", "--user"]
