"""Who may come in? Users in their file: added, recognised, revoked, and changed by another process meanwhile."""

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest

from pykueue.apiserver.auth.access import Access
from pykueue.apiserver.auth.users import (
    User,
    Users,
    UsersError,
)
from pykueue.apiserver.wire.identity import Peer
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.clock import START, ManualClock
from pykueue.base.datafolder import USERS
from pykueue.base.units import MICROS, Instant


def test_a_user_is_known_by_its_token_and_nobody_else_is(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token, other = users.add("ann"), users.add("bob")
    assert token != other
    assert (found := users.by_token(token)) is not None
    assert (found.name, found.role, found.namespace, found.os_user) == ("ann", "user", "ann", "ann")
    assert users.by_token(token) == found
    for wrong in ("", token[:-1], token + "x", "x" * 100_000, token.upper(), "\udcff"):
        assert users.by_token(wrong) is None


def test_no_token_is_kept_and_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    token = Users(tmp_path).add("ann")
    held = (tmp_path / USERS).read_text()
    assert token not in held
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_equal_tokens_would_not_show_as_equal(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ann")
    users.add("bob")
    ann, bob = users.all()["ann"], users.all()["bob"]
    assert ann.salt != bob.salt


def test_what_another_process_changes_is_seen_at_once(tmp_path: Path) -> None:
    running, command = Users(tmp_path), Users(tmp_path)
    token = command.add("ann")
    assert running.by_token(token) is not None
    command.revoke("ann")
    assert running.by_token(token) is None
    assert running.named("ann") is None
    again = command.add("ann")
    assert running.by_token(token) is None
    assert running.by_token(again) is not None


async def test_credentials_that_expire(tmp_path: Path) -> None:
    clock = ManualClock()
    users = Users(tmp_path, clock)
    token = users.add("ann", expires=Instant(START + 60 * MICROS))
    users.certify("ann", "aa")
    assert users.by_token(token) is not None
    access = Access(users)
    assert access.authenticate({}, Peer("ann", "aa")).name == "ann"
    await clock.advance(60)
    assert users.by_token(token) is None
    for headers, peer in (({}, Peer("ann", "aa")), ({"authorization": f"Bearer {token}"}, None)):
        with pytest.raises(StatusError) as refused:
            access.authenticate(headers, peer)
        assert (refused.value.code, refused.value.reason) == (401, "Unauthorized")
        assert refused.value.message == "Unauthorized: the credentials of ann expired at 2027-01-15T08:01:00Z"
    with pytest.raises(StatusError, match=r"^Unauthorized$"):
        access.authenticate({"authorization": "Bearer guessed"}, None)
    assert users.named("ann") is not None, "the user stays, with all that is theirs"
    with pytest.raises(UsersError, match="expired at 2027-01-15T08:01:00Z; set how long the new ones are valid"):
        users.rotate("ann")
    again = users.rotate("ann", Instant(START + 120 * MICROS))
    assert users.by_token(again) is not None
    await clock.advance(60)
    assert Users(tmp_path, clock).by_token(again) is None


def test_a_new_token_changes_nothing_else(tmp_path: Path) -> None:
    users = Users(tmp_path)
    token = users.add("ann", role="admin", namespace="lab", os_user="root")
    users.certify("ann", "aa")
    before = users.all()["ann"]
    again = users.rotate("ann")
    after = users.all()["ann"]
    assert users.by_token(token) is None
    assert users.by_token(again) == after
    assert after == msgspec.structs.replace(before, salt=after.salt, hash=after.hash, certificates=())
    users.revoke("ann")
    with pytest.raises(UsersError, match="'ann' is not a user any more; users: none"):
        users.rotate("ann")
    with pytest.raises(UsersError, match="'ann' is not a user any more; users: none"):
        users.revoke("ann")
    with pytest.raises(StatusError, match=r"^Unauthorized$"):
        Access(users).authenticate({"authorization": f"Bearer {again}"}, None)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users(tmp_path)
    users.add("ann")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pykueue.apiserver.auth.users.put", full)
    with pytest.raises(UsersError, match=r"users.json: cannot be written: No space left on device; check the free"):
        users.add("bob")
    assert users.named("ann")


def test_a_certificate_counts_only_while_it_is_listed(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ann")
    assert users.certified(Peer("ann", "aa")) is None
    users.certify("ann", "aa")
    assert users.certified(Peer("ann", "aa")) is not None
    assert users.certified(Peer("bob", "aa")) is None
    users.revoke("ann")
    users.add("ann")
    assert users.certified(Peer("ann", "aa")) is None


@pytest.mark.parametrize(
    "name", ["", "Ann", "system:masters", "a b", "../x", "-a", "a" * 64, "ann\n"], ids=lambda name: repr(name)[:20]
)
def test_a_name_that_could_mean_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsersError, match="a user name is a lower-case letter"):
        Users(tmp_path).add(name)


def test_a_namespace_follows_from_the_name_or_is_given(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ann_b.c")
    users.add("bob", namespace="lab")
    users.add("root", role="admin")
    assert [users.all()[name].namespace for name in ("ann_b.c", "bob", "root")] == ["ann-b-c", "lab", ""]
    with pytest.raises(UsersError, match="a namespace is at most 63"):
        users.add("eve", namespace="kube/system")


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        pytest.param("a-b", "belongs to user a.b", id="another user's"),
        pytest.param("c_d", "belongs to user c.d", id="a removed user's"),
        pytest.param("lab", "belongs to user bob", id="one that was given to another"),
        pytest.param("default", "is a system namespace", id="where the admin's jobs are"),
        pytest.param("kube-system", "is a system namespace", id="one of Kubernetes"),
        pytest.param("kueue-system", "is a system namespace", id="one of Kueue"),
    ],
)
def test_nobody_gets_the_namespace_of_another_by_their_name(tmp_path: Path, name: str, whose: str) -> None:
    users = Users(tmp_path)
    users.add("a.b")
    users.add("c.d")
    users.revoke("c.d")
    users.add("bob", namespace="lab")
    with pytest.raises(UsersError, match=f"{whose}; choose another one with --namespace"):
        users.add(name)
    users.add(name, namespace="a-b")
    users.add("a.b")
    assert (users.all()[name].namespace, users.all()["a.b"].namespace) == ("a-b", "a-b")


def test_nobody_is_revoked_who_is_not_there(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ann")
    with pytest.raises(UsersError, match="no user 'bob'; users: ann"):
        users.revoke("bob")
    with pytest.raises(UsersError, match="no user 'bob'; add it first"):
        users.certify("bob", "aa")


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    token = (users := Users(tmp_path)).add("ann")
    os.chmod(tmp_path / USERS, 0o666)
    with pytest.raises(UsersError, match="other users can write to it"):
        Users(tmp_path)
    # A running server lets nobody in, rather than go by what it knew before.
    assert users.by_token(token) is None
    os.chmod(tmp_path / USERS, 0o600)
    assert users.by_token(token) is not None


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":1,"users":[{"name":"x","role":"king"}]}'])
def test_a_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path, content: bytes) -> None:
    token = (users := Users(tmp_path)).add("ann")
    (tmp_path / USERS).write_bytes(content)
    with pytest.raises(UsersError, match="restore it from a backup"):
        Users(tmp_path)
    assert users.by_token(token) is None


def test_a_file_of_a_later_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / USERS).write_bytes(msgspec.json.encode({"version": 2, "users": []}))
    os.chmod(tmp_path / USERS, 0o600)
    with pytest.raises(UsersError, match="layout 2, but this version reads 1"):
        Users(tmp_path)


def test_users_can_live_in_memory() -> None:
    users = Users()
    token = users.add("admin", role="admin")
    assert users.by_token(token) == users.all()["admin"]
    users.revoke("admin")
    assert users.by_token(token) is None
    assert users.all()["admin"] == User("admin", "admin", "admin", revoked=True)
