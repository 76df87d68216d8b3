"""Who does a process run as? A user of this machine."""

import os
import pwd
from functools import cache
from typing import Self

from pykueue.base.struct import Frozen


class Account(Frozen):
    """A user of this machine, with everything that a process of theirs is given."""

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
        """The user of an entry in the password file, with all groups that they are in."""
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return cls(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, entry.pw_dir, entry.pw_shell)

    @classmethod
    def numbered(cls, uid: int) -> "Account":
        """The user of this number; one whom the password file does not have is in one group, of the same number."""
        try:
            return cls.of(pwd.getpwuid(uid))
        except KeyError:
            return cls(uid, uid, (uid,), str(uid), "/")

    @classmethod
    def of_this_process(cls) -> "Account":
        """The user that we are."""
        return own(os.geteuid(), os.getegid())

    def is_own(self) -> bool:
        """Whether it is the user that we are."""
        return self.uid == os.geteuid()

    def ids(self) -> tuple[int, int, list[int]] | None:
        """What a process has to become: user, group and all groups; None where it is that already."""
        if self.is_own():
            same = self.gid == os.getegid() and {self.gid, *self.groups} == {os.getegid(), *os.getgroups()}
            if same or not self.asked:
                return None
        return self.uid, self.gid, [*self.groups]


@cache
def own(uid: int, gid: int) -> Account:
    """The user that we are, by these numbers; it is asked for with every process."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        # A number without a name, as in many containers.
        return Account(uid, gid, tuple(os.getgroups()), str(uid), os.environ.get("HOME", "/"))
    return Account(uid, gid, tuple(os.getgroups()), entry.pw_name, entry.pw_dir, entry.pw_shell)
