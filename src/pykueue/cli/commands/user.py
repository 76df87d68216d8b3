"""Who else may use this machine's queues? `pykueue user add`, `list` and `remove`."""

import asyncio
import errno
import os
import pwd
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli.serverstate import OWN_KUBECONFIG, data_folder, fail, read_standing
from pykueue.cli.tables import table

if TYPE_CHECKING:
    from pykueue.apiserver.auth.users import Users


@click.group()
def user() -> None:
    """Let users of this machine in, and out again.

    \b
    Example:
      pykueue user add alice
      pykueue user list
      pykueue user remove alice

    Exit codes: 0, done; 1, the server does not run; 2, it cannot be done.
    """


@user.command()
@click.argument("name")
@click.option(
    "--namespace",
    metavar="NAME",
    help="The one the user works in; by default the one they have, or at first one of their name.",
)
@click.option("--admin", is_flag=True, help="May do everything, in all namespaces, and run jobs as root.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="CLUSTERQUEUE",
    help="Give the namespace a LocalQueue to it, of its name; several times for several. By default to each there is, "
    "and for a user who has queues to no other.",
)
@click.option("--out", metavar="FILE", help="Where the kubeconfig goes, if not to the user's ~/.config/pykueue.")
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
def add(
    name: str, namespace: str | None, admin: bool, queues: tuple[str, ...], out: str | None, data: str | None
) -> None:
    """Let NAME in: a namespace, queues, and a kubeconfig that only NAME can read.

    The server was started by root: one that somebody else started is theirs alone. NAME is a user of this machine, and
    the jobs that NAME submits run as that user. To add NAME again gives a new kubeconfig, and the old one is good for
    nothing; namespace and queues stay, unless others are named. An admin is root on this machine, as far as jobs go:
    give --admin only to whom you would give that.

    \b
    Example:
      pykueue user add alice
      pykueue user add bob --namespace vision --queue gpu
      pykueue user add carol --admin

    Exit codes: 0, done; 1, the server does not run; 2, it cannot be done.
    """
    from pykueue.apiserver.auth.kubeconfigs import kubeconfig
    from pykueue.apiserver.auth.users import Role, Users, UsersError, check, is_system
    from pykueue.cli.target import of_folder, running
    from pykueue.cli.usersetup import PrepareError, prepare

    folder, standing = running(data)
    account = account_of(name, folder)
    place = Path(out) if out else Path(account.pw_dir) / OWN_KUBECONFIG
    try:
        # All that can be refused is looked at before anything is changed.
        check(name, namespace or "")
        if namespace and is_system(namespace) and not admin:
            fail(f"--namespace: {namespace} is the system's; give another one")
        users = Users(folder)
        known = users.named(name)
        before = known.namespace if known is not None else ""
        own = namespace or ("default" if admin else before or users.namespace_for(name))
        put(place, None, account)
        reached = of_folder(folder, must_run=True).connection
        given = asyncio.run(prepare(reached, own, queues, keep=own == before))
        role: Role = "admin" if admin else "user"
        token = users.add(name, role=role, namespace="" if admin else own, os_user=account.pw_name)
        text = kubeconfig(standing.server, reached.authority.encode(), user=name, namespace=own, token=token)
    except (PrepareError, UsersError) as error:
        fail(str(error))
    put(place, text, account)
    what = "an admin" if admin else f"a user of namespace {own}"
    click.echo(f"{name} is {what}{' again, with a new kubeconfig' if known is not None else ''}: {place}")
    click.echo(f"queues: {', '.join(given) or 'none yet; create a LocalQueue in the namespace'}")


def account_of(name: str, folder: Path) -> pwd.struct_passwd:
    """The user of this machine whom the name means; says so and ends if nobody can be let in by that name."""
    from pykueue.apiserver.auth.users import ADMIN

    if folder.stat().st_uid != 0:
        fail(
            f"{folder}: its server was not started by root, so all jobs would run as whoever did, and nobody else is "
            "let in; have root start one (`pykueue up`) for several users"
        )
    if name == ADMIN or name.startswith("system:"):
        fail(f"{name!r} is a name of the server's own, and whoever had it could run jobs as root; use another account")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        fail(f"{name!r} is no user of this machine, so nothing could run as {name}; create one first (useradd {name})")


def put(place: Path, text: str | None, account: pwd.struct_passwd) -> None:
    """Write a kubeconfig for its user alone, as that user: a folder of theirs may lead us anywhere.

    Without a text nothing is written, and only said if it could not be.
    """
    child = os.fork()
    if child == 0:
        os._exit(put_as(place, text, account))
    wrong = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if wrong:
        why = os.strerror(wrong) if wrong > 0 else "it was stopped"
        fail(
            f"{place}: cannot be written as {account.pw_name}, whose file it is: {why}; give one with --out that "
            f"{account.pw_name} can write"
        )


def put_as(place: Path, text: str | None, account: pwd.struct_passwd) -> int:
    """Write a kubeconfig as a user, in a process that is given up afterwards: what was wrong, as a number of errno."""
    from pykueue.apiserver.auth.kubeconfigs import write

    try:
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if text is not None:
            write(place, text)
        elif place.is_dir():
            return errno.EISDIR
        else:
            tempfile.TemporaryFile(dir=place.parent).close()
    except OSError as error:
        return error.errno or errno.EIO
    return 0


@user.command(name="list")
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
def list_users(data: str | None) -> None:
    """Show who may come in.

    \b
    Example:
      pykueue user list
    """
    for line in table(("NAME", "ROLE", "NAMESPACE", "RUNS AS"), rows(data), "<<<<"):
        click.echo(line)


def rows(data: str | None) -> Sequence[Sequence[str]]:
    """What is shown of each user."""
    known = users_of(data).all().values()
    return [
        (one.name, one.role, one.namespace or "(all)", one.os_user)
        for one in sorted(known, key=lambda one: one.name)
        if not one.revoked
    ]


def users_of(data: str | None) -> "Users":
    """The users of a data folder; says so and ends if there are none to be had."""
    from pykueue.apiserver.auth.users import Users, UsersError

    folder = data_folder(data)
    # Of another user's folder this says so.
    read_standing(folder)
    if not folder.is_dir():
        fail(f"nothing was ever started on {folder}, so it has no users; is this the right --data?")
    try:
        return Users(folder)
    except UsersError as error:
        fail(str(error))


@user.command()
@click.argument("name")
@click.option("--data", metavar="DIR", help="The data folder, if not the usual one.")
def remove(name: str, data: str | None) -> None:
    """Let NAME in no more, from this moment on.

    The namespace stays with all that is in it, and jobs that run go on; delete the namespace to end them. What NAME
    reads at this moment (`kubectl logs -f`, a watch) goes on until it ends by itself or the server is restarted.

    \b
    Example:
      pykueue user remove alice
      kubectl delete namespace alice
    """
    from pykueue.apiserver.auth.users import ADMIN, UsersError

    if name == ADMIN:
        fail(f"{name!r} is the server's own user, by which it is governed; stop the server to let nobody in")
    try:
        users_of(data).revoke(name)
    except UsersError as error:
        fail(str(error))
    click.echo(f"{name} is let in no more")
