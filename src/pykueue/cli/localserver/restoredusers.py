"""Decide which users a data directory has after `pykueue restore`: those of today, or those of the backup.

A backup is older than the present: with its users come back the credentials that were revoked since. Users, the
server's kubeconfig and its certificates belong together, since a kubeconfig has a token and trusts an authority.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pykueue.apiserver.auth.users import ADMIN, User, read_users
from pykueue.apiserver.auth.users import write as write_users
from pykueue.base.datafolder import CERTIFICATE_FILES, CERTIFICATES, KUBECONFIG, USERS
from pykueue.base.units import Instant

Source = Literal["today", "backup", "backup but admin"]


def users_in(folder: Path) -> Mapping[str, User]:
    """The users in a folder, none without a file; raises `UsersError` if the file is invalid."""
    path = folder / USERS
    return {user.name: user for user in read_users(path)} if path.exists() else {}


def source(today: Mapping[str, User]) -> Source:
    """Which users to take by default: the backup's only if no user was ever added here."""
    if today.keys() - {ADMIN}:
        return "today"
    # The server creates its own administrator at its first start; if that was rotated, it stays rotated.
    return "backup but admin" if today else "backup"


def taken(scratch: Path, folder: Path, chosen: Source) -> list[str]:
    """The files of an unpacked backup that replace those of the data directory."""
    certificates = [f"{CERTIFICATES}/{name}" for name in CERTIFICATE_FILES]
    match chosen:
        case "backup":
            return [USERS, KUBECONFIG, *certificates]
        case "backup but admin":
            admin = {ADMIN: users_in(folder)[ADMIN]}
            write_users(scratch / USERS, tuple({**users_in(scratch), **admin}.values()))
            return [USERS, *certificates]
        case "today":
            # An authority that is missing would be created again, and no kubeconfig would trust it.
            return [] if all((folder / name).exists() for name in certificates) else certificates


def differences(today: Mapping[str, User], then: Mapping[str, User], at: Instant) -> list[str]:
    """Whose access changes if the users of a backup replace those of today, a line for each."""
    lines = []
    for name in sorted(today.keys() | then.keys()):
        now, back = admitted(today.get(name), at), admitted(then.get(name), at)
        if back is None:
            if now is not None:
                lines.append(f"{name}: loses access")
            continue
        role = f" as {back.role}" if now is None or now.role != back.role else ""
        if now is None:
            why = "currently has no access" if name in today else "is currently unknown"
            lines.append(f"{name}: {why}, and regains access{role}")
        elif now.credentials != back.credentials:
            lines.append(
                f"{name}: regains access{role} with the credentials of the backup; the current ones are revoked"
            )
        elif now != back:
            lines.append(f"{name}: gets the permissions and expiry of the backup{role}")
    return lines


def admitted(user: User | None, at: Instant) -> User | None:
    """The user, if credentials of theirs are valid."""
    return user if user is not None and user.admitted(at) else None
