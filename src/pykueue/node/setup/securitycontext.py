"""The account of a container: its creator's, as changed by a securityContext.

A pod runs as the account of the user who created it. A user's pod may name only that account and its groups: otherwise
every user could become any other, including root. An administrator's pod may name any user and group. The rule is
checked twice: when a Pod or Job is created, and when a container starts, since an account's groups may have changed
meanwhile and older objects were stored without the check.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from pykueue.api.fields import FieldError, forbidden
from pykueue.api.trees import items, mapping, mappings, member, text, whole
from pykueue.base.struct import Frozen
from pykueue.node.setup.accounts import Account

ERRORS_MAX: Final = 100
CONTAINERS: Final = ("initContainers", "containers")
OF_CONTAINERS: Final = ("runAsUser", "runAsGroup", "runAsNonRoot")
"""Fields in which a container may override its pod."""
STRICT: Final = "Strict"
"""The supplementalGroupsPolicy that limits a process to the groups that its pod names."""


class Scope(Frozen):
    """What a pod may request: its creator's account, and whether it may name others."""

    account: Account | None
    """None if the creator is not a user of this machine; the pod cannot run then."""
    any: bool = False
    """Whether any user and group may be named."""
    switches: bool = True
    """Whether the server, as root, can start processes with other ids than its own."""

    def has_user(self, uid: int) -> bool:
        """Whether a pod may run as this user."""
        return self.any or (self.account is not None and uid == self.account.uid)

    def has_primary(self, gid: int) -> bool:
        """Whether this may be the primary group of a process; without root, only the server's own can."""
        if self.switches:
            return self.has_group(gid)
        return self.account is not None and gid == self.account.gid

    def has_group(self, gid: int) -> bool:
        """Whether a process may be in this group."""
        return self.any or (self.account is not None and gid in (self.account.gid, *self.account.groups))

    def explain(self) -> str:
        """Why another id is refused, and what to do."""
        if self.account is None:
            return "its creator has no account on this machine"
        whose = f"{'its creator' if self.switches else 'the server'}'s account {self.account.name}"
        groups = ", ".join(str(gid) for gid in sorted({self.account.gid, *self.account.groups}))
        advice = "" if self.switches else ", as the server was not started by root"
        return f"the pod runs as {whose} (user {self.account.uid}, groups {groups}){advice}; leave the field out"


def scope(account: Account | None, *, any: bool) -> Scope:
    """What a pod of this account may request; only root can start processes of others."""
    root = os.geteuid() == 0
    return Scope(account, any and root, root)


ROWS: Final = (
    ("runAsUser", Scope.has_user),
    ("runAsGroup", Scope.has_primary),
    ("fsGroup", Scope.has_group),
    ("supplementalGroups", Scope.has_group),
)
"""The fields that name users and groups, and the check of each."""


def id_errors(spec: Mapping[str, object], path: str, scope: Scope) -> list[FieldError]:
    """The users and groups that a pod spec names but may not."""
    return [*islice(foreign_ids(spec, path, scope), ERRORS_MAX)]


def foreign_ids(spec: Mapping[str, object], path: str, scope: Scope) -> Iterator[FieldError]:
    """The same, one by one."""
    if scope.any:
        return
    yield from context_errors(member(spec, "securityContext"), f"{path}.securityContext", scope)
    for field in CONTAINERS:
        for index, container in enumerate(items(spec, field)):
            # There may be very many containers, and few have a securityContext.
            if isinstance(container, dict) and container.get("securityContext"):
                yield from context_errors(
                    container["securityContext"], f"{path}.{field}[{index}].securityContext", scope
                )


def context_errors(context: object, path: str, scope: Scope) -> Iterator[FieldError]:
    """The users and groups that a securityContext names but may not."""
    for field, allowed in ROWS:
        value = member(context, field)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int) and not allowed(scope, one):
                yield forbidden(f"{path}.{field}", f"{one} is not allowed: {scope.explain()}")


class RefusedError(Exception):
    """A container requests an account that it may not have; the message says why."""


def account_for(pod: Mapping[str, object], container: Mapping[str, object], scope: Scope) -> Account:
    """The account of a container; raises `RefusedError` if it requests one that it may not have."""
    spec = mapping(pod, "spec")
    assert scope.account is not None, "a pod without an account does not get here"
    whole_pod, own = mapping(spec, "securityContext"), mapping(container, "securityContext")
    asked = {**whole_pod, **{field: own[field] for field in OF_CONTAINERS if field in own}}
    for error in context_errors(asked, "securityContext", scope):
        raise RefusedError(f"{error.path}: {error.detail} (pod: {shown(pod)}, container: {text(container, 'name')})")
    account = changed(scope.account, asked)
    if account.uid == 0 and asked.get("runAsNonRoot") is True:
        # The kubelet's message, which users search for.
        broken = whole(asked, "runAsUser") is not None
        why = "container's runAsUser breaks non-root policy" if broken else NON_ROOT
        raise RefusedError(f"{why} (pod: {shown(pod)}, container: {text(container, 'name')})")
    if account.ids() is not None and not scope.switches:
        raise RefusedError(f"securityContext: {scope.explain()}")
    return account


NON_ROOT: Final = "container has runAsNonRoot and image will run as root"


def changed(account: Account, asked: Mapping[str, object]) -> Account:
    """The account as changed by a securityContext."""
    user, group = whole(asked, "runAsUser"), whole(asked, "runAsGroup")
    named = [one for one in (*items(asked, "supplementalGroups"), asked.get("fsGroup")) if isinstance(one, int)]
    strict = text(asked, "supplementalGroupsPolicy") == STRICT
    if user is None and group is None and not named and not strict and asked.get("runAsNonRoot") is not True:
        return account
    made = account if user is None or user == account.uid else Account.numbered(user)
    gid = made.gid if group is None else group
    # With another primary group, a process is no longer in the account's own.
    kept = () if strict else (one for one in made.groups if group is None or one != made.gid)
    return msgspec.structs.replace(made, gid=gid, groups=tuple(sorted({gid, *kept, *named})), asked=True)


def several_users(pod: Mapping[str, object], scope: Scope) -> bool:
    """Whether the containers of a pod, which share its volumes, run as different users."""
    spec = mapping(pod, "spec")
    default = whole(spec, "securityContext", "runAsUser")
    named = {
        whole(container, "securityContext", "runAsUser") if has_user(container) else default
        for field in CONTAINERS
        for _, container in mappings(spec, field)
    }
    own = None if scope.account is None else scope.account.uid
    return len({own if one is None else one for one in named}) > 1


def has_user(container: Mapping[str, object]) -> bool:
    """Whether a container itself names its user."""
    return whole(container, "securityContext", "runAsUser") is not None


def shown(pod: Mapping[str, object]) -> str:
    """A pod as the kubelet's messages name it."""
    name, namespace, uid = (text(pod, "metadata", field) for field in ("name", "namespace", "uid"))
    return f'"{name}_{namespace}({uid})"'
