"""Users of this machine, as which processes run."""

import os
import pwd
from functools import cache
from typing import Self

from pykueue.base.struct import Frozen


class Account(Frozen):
    """A user of this machine, with everything that a process of theirs gets."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    shell: str = ""
    asked: bool = False
    """Whether a securityContext changed what the password file says."""

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> Self:
        """The user of an entry in the password file, with all their groups."""
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, entry.pw_dir, entry.pw_shell)

    @classmethod
    def numbered(cls, uid: int) -> "Account":
        """The user with this uid; one that is not in the password file has one group, of the same number."""
        try:
            return cls.of(pwd.getpwuid(uid))
        except KeyError:
            return cls(uid, uid, (uid,), str(uid), "/")

    @classmethod
    def of_this_process(cls) -> "Account":
        """The user of this process."""
        return own(os.geteuid(), os.getegid())

    def is_own(self) -> bool:
        """Whether it is the user of this process."""
        return self.uid == os.geteuid()

    def ids(self) -> tuple[int, int, list[int]] | None:
        """The ids to switch to: user, group and all groups; None if the process has them already."""
        if self.is_own():
            same = self.gid == os.getegid() and {self.gid, *self.groups} == {os.getegid(), *os.getgroups()}
            if same or not self.asked:
                return None
        return self.uid, self.gid, [*self.groups]


@cache
def own(uid: int, gid: int) -> Account:
    """The user of this process, by these ids; cached, since every start of a process needs it."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A uid without a name, as in many containers.
        return Account(uid, gid, tuple(os.getgroups()), str(uid), os.environ.get("HOME", "/"))
    return Account(uid, gid, tuple(os.getgroups()), entry.pw_name, entry.pw_dir, entry.pw_shell)
