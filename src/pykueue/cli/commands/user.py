"""`pykueue user add`, `list`, `rotate` and `remove`: manage the users of a shared server."""

import asyncio
import contextlib
import errno
import io
import os
import pwd
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pykueue.base.datafolder import KUBECONFIG
from pykueue.base.units import Instant, format_instant, parse_instant
from pykueue.cli.groups import Group
from pykueue.cli.serverstate import OWN_KUBECONFIG, data_folder, fail, read_record
from pykueue.cli.tables import table

if TYPE_CHECKING:
    from pykueue.apiserver.auth.users import Users

DAY_MICROS: Final = 24 * 60 * 60 * 1_000_000
KUBECONFIG_BYTES: Final = 16 * 1024
"""More than a kubeconfig has."""


def offered_users(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The users of the server, for a shell; none if they cannot be read."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = [name for name, *_ in rows(ctx.params.get("data"))]
    except (Exception, SystemExit):
        return []
    return [name for name in found if name.startswith(incomplete)]


@click.group(cls=Group)
def user() -> None:
    """Manage the users of a shared server.

    \b
    Example:
      pykueue user add alice
      pykueue user list
      pykueue user rotate alice
      pykueue user remove alice

    Exit codes: 0, success; 1, the server is not running; 2, the request was rejected.
    """


@user.command()
@click.argument("name")
@click.option(
    "--namespace",
    metavar="NAME",
    help="Namespace of the user; default: the current one, or the name of the user for a new user.",
)
@click.option("--admin", is_flag=True, help="Grant full access to all namespaces, including jobs that run as root.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="CLUSTERQUEUE",
    help="Create a LocalQueue for this ClusterQueue in the namespace, with the same name; repeatable. Default: one for "
    "each ClusterQueue, or none if the user already has queues.",
)
@click.option(
    "--out", metavar="FILE", help="Path of the kubeconfig; default: ~/.config/pykueue/kubeconfig of the user."
)
@click.option(
    "--expires",
    metavar="WHEN",
    help="When the kubeconfig expires, e.g. 30d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z; default: never.",
)
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def add(
    name: str,
    namespace: str | None,
    admin: bool,
    queues: tuple[str, ...],
    out: str | None,
    expires: str | None,
    data: str | None,
) -> None:
    """Give NAME a namespace, queues and a kubeconfig.

    NAME must be a user of this machine, and the server must have been started by root. The jobs of NAME run as that
    user, and only NAME can read the kubeconfig. Adding NAME again creates a new kubeconfig and revokes the old one; the
    namespace and queues are kept unless you specify others. An admin can run jobs as root, so grant --admin only to
    users whom you trust with root access.

    \b
    Example:
      pykueue user add alice
      pykueue user add bob --namespace vision --queue gpu
      pykueue user add carol --admin
      pykueue user add guest --expires 30d

    Exit codes: 0, success; 1, the server is not running; 2, the request was rejected.
    """
    from pykueue.apiserver.auth.kubeconfigs import kubeconfig
    from pykueue.apiserver.auth.users import Role, Users, UsersError, check, is_system
    from pykueue.cli.localserver.usersetup import PrepareError, prepare
    from pykueue.cli.target import of_folder, running

    until = expiry(expires)
    check_administrator(data)
    folder, standing = running(data)
    account = account_of(name, folder)
    place = Path(out) if out else Path(account.pw_dir) / OWN_KUBECONFIG
    try:
        # Check everything that can be rejected before changing anything.
        check(name, namespace or "")
        if namespace and is_system(namespace) and not admin:
            fail(f"--namespace: {namespace} is a system namespace; choose another one")
        users = Users(folder)
        known = users.named(name)
        before = known.namespace if known is not None else ""
        own = namespace or ("default" if admin else before or users.namespace_for(name))
        put(place, None, account)
        reached = of_folder(folder, must_run=True).connection
        given = asyncio.run(prepare(reached, own, queues, keep=own == before))
        role: Role = "admin" if admin else "user"
        token = users.add(name, role=role, namespace="" if admin else own, os_user=account.pw_name, expires=until)
        text = kubeconfig(standing.server, reached.authority.encode(), user=name, namespace=own, token=token)
    except (PrepareError, UsersError) as error:
        fail(str(error))
    put(place, text, account)
    what = "admin" if admin else f"user of namespace {own}"
    done = "updated with a new kubeconfig" if known is not None else "added"
    click.echo(f"{name} {done}: {what}, kubeconfig {place}{validity(until)}")
    none = f"none yet; create one with `pykueue queue add NAME --share 50% --namespace {own}`"
    click.echo(f"queues: {', '.join(given) or none}")


def account_of(name: str, folder: Path) -> pwd.struct_passwd:
    """The account of this name; exits with an error if it cannot be added."""
    from pykueue.apiserver.auth.users import ADMIN

    if folder.stat().st_uid != 0:
        fail(
            f"{folder}: the server was not started by root, so it cannot run jobs as other users; start one as root "
            "with `pykueue up` to serve several users"
        )
    if name == ADMIN or name.startswith("system:"):
        fail(f"{name!r} is reserved for the server, which runs jobs as root; use another account")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        fail(f"no user {name!r} on this machine; create the account first: useradd {name}")


def put(place: Path, text: str | None, account: pwd.struct_passwd | None) -> None:
    """Write a kubeconfig as its user, with mode 0600: symbolic links in a home directory cannot be trusted.

    Without an account, write it as the user of this process. Without a text, only check that the file could be written.
    Exits with an error if it cannot.
    """
    child = os.fork()
    if child == 0:
        os._exit(put_as(place, text, account))
    wrong = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if wrong:
        why = os.strerror(wrong) if wrong > 0 else "the process was killed"
        who = "this user" if account is None else f"user {account.pw_name}"
        fail(f"{place}: cannot be written as {who}: {why}; choose another path with --out that {who} can write")


def put_as(place: Path, text: str | None, account: pwd.struct_passwd | None) -> int:
    """Write a kubeconfig as a user, in a child process; return 0 or an errno."""
    from pykueue.apiserver.auth.kubeconfigs import write

    try:
        if account is not None:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if text is not None:
            write(place, text)
        elif place.is_dir():
            return errno.EISDIR
        else:
            with tempfile.TemporaryFile(dir=place.parent) as probe:
                probe.write(bytes(KUBECONFIG_BYTES))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


@user.command(name="list")
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def list_users(data: str | None) -> None:
    """List the users of the server.

    \b
    Example:
      pykueue user list
    """
    for line in table(("NAME", "ROLE", "NAMESPACE", "RUNS AS", "EXPIRES"), rows(data), "<<<<<"):
        click.echo(line)


def rows(data: str | None) -> Sequence[Sequence[str]]:
    """The rows of the table of users."""
    users = users_of(data)
    now = users.clock.now()
    return [
        (
            one.name,
            one.role,
            one.namespace or "(all)",
            one.os_user,
            "never" if one.expires is None else ("" if one.admitted(now) else "expired ") + format_instant(one.expires),
        )
        for one in sorted(users.all().values(), key=lambda one: one.name)
        if not one.revoked
    ]


def users_of(data: str | None) -> "Users":
    """The users of a data directory; exits with an error if it does not exist."""
    from pykueue.apiserver.auth.users import Users, UsersError

    folder = data_folder(data)
    # Exits if the directory belongs to another user.
    read_record(folder)
    if not folder.is_dir():
        check_administrator(data)
        fail(f"{folder}: no server was ever started here; check --data")
    try:
        return Users(folder)
    except UsersError as error:
        fail(str(error))


def check_administrator(data: str | None) -> None:
    """Exit with an error if this user has no server of their own, only access to another user's."""
    from pykueue.cli.target import is_set_up, own_kubeconfig

    if data is None and own_kubeconfig(os.environ).exists() and not is_set_up(data_folder()):
        fail("only an administrator can list or change the users; ask the user who started the server")


@user.command()
@click.argument("name", shell_complete=offered_users)
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def remove(name: str, data: str | None) -> None:
    """Revoke the access of NAME immediately.

    The namespace and everything in it are kept, and running jobs continue; delete the namespace to end them. Open
    streams of NAME (`kubectl logs -f`, a watch) continue until they end or the server is restarted.

    \b
    Example:
      pykueue user remove alice
      kubectl delete namespace alice
    """
    from pykueue.apiserver.auth.users import ADMIN, UsersError

    if name == ADMIN:
        fail(f"{name!r} is the server's own administrator and cannot be removed; stop the server to revoke all access")
    try:
        users_of(data).revoke(name)
    except UsersError as error:
        fail(str(error))
    click.echo(f"{name} removed")


@user.command()
@click.argument("name", shell_complete=offered_users)
@click.option(
    "--expires",
    metavar="WHEN",
    help="When the new kubeconfig expires, as in `pykueue user add`; default: as before.",
)
@click.option(
    "--out", metavar="FILE", help="Path of the kubeconfig; default: ~/.config/pykueue/kubeconfig of the user."
)
@click.option("--data", metavar="DIR", help="Data directory of the server; see `pykueue up --help` for the default.")
def rotate(name: str, expires: str | None, out: str | None, data: str | None) -> None:
    """Give NAME a new kubeconfig and revoke the old one.

    Role, namespace, queues and jobs are kept. `admin` is the server's own administrator, whose kubeconfig is in the
    data directory.

    \b
    Example:
      pykueue user rotate alice
      pykueue user rotate guest --expires 30d
      pykueue user rotate admin

    Exit codes: 0, success; 1, the server is not running; 2, the request was rejected.
    """
    from pykueue.apiserver.auth.kubeconfigs import kubeconfig
    from pykueue.apiserver.auth.users import ADMIN, UsersError, unknown
    from pykueue.cli.target import of_folder, running

    until = expiry(expires)
    check_administrator(data)
    folder, standing = running(data)
    users = users_of(data)
    if users.named(name) is None:
        fail(str(unknown(name, users.all())))
    account = None if name == ADMIN else account_of(name, folder)
    usual = folder / KUBECONFIG if account is None else Path(account.pw_dir) / OWN_KUBECONFIG
    place = Path(out) if out else usual
    try:
        put(place, None, account)
        authority = of_folder(folder, must_run=True).connection.authority
        token = users.rotate(name, until)
    except UsersError as error:
        fail(str(error))
    known = users.all()[name]
    namespace = known.namespace or "default"
    put(place, kubeconfig(standing.server, authority.encode(), user=name, namespace=namespace, token=token), account)
    click.echo(f"{name} updated with a new kubeconfig: {place}{validity(known.expires)}")


def expiry(text: str | None) -> Instant | None:
    """The time that --expires names; None without it. Exits with an error if it is malformed or not in the future."""
    from pykueue.api.durations import DurationError, parse_duration
    from pykueue.base.clock import SystemClock

    if text is None:
        return None
    now = SystemClock().now()
    try:
        if text[:-1].isdecimal() and text[-1] == "d":
            found = Instant(now + int(text[:-1]) * DAY_MICROS)
        elif text[4:5] == "-":
            found = parse_instant(text if "T" in text else f"{text}T00:00:00Z")
        else:
            found = Instant(now + parse_duration(text))
        shown = format_instant(found)
    except (DurationError, ValueError, OverflowError):
        fail(f"--expires: {text!r} is not a time; write it as in 30d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z")
    if found <= now:
        fail(f"--expires: {shown} is not in the future")
    return found


def validity(expires: Instant | None) -> str:
    """What a message says about the end of a kubeconfig's validity."""
    return "" if expires is None else f", valid until {format_instant(expires)}"
