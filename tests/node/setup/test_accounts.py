"""Is a user of this machine known with all that a process of theirs needs?"""

import os
import pwd

import pytest

from pykueue.node.setup.accounts import Account


def test_the_user_that_we_are() -> None:
    own = Account.of_this_process()
    assert (own.uid, own.gid) == (os.geteuid(), os.getegid())
    assert own.is_own()


def test_another_user_with_all_their_groups() -> None:
    entry = next(one for one in pwd.getpwall() if one.pw_uid != os.geteuid())
    account = Account.of(entry)
    assert (account.uid, account.gid, account.name) == (entry.pw_uid, entry.pw_gid, entry.pw_name)
    assert (account.home, account.shell) == (entry.pw_dir, entry.pw_shell)
    assert entry.pw_gid in account.groups
    assert not account.is_own()


def test_a_number_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    monkeypatch.setenv("HOME", "/somewhere")
    own = Account.of_this_process()
    assert (own.name, own.home) == ("4000000", "/somewhere")
