"""Choose the server that a command talks to, by one rule for every command.

In this order:

1. `--kubeconfig FILE` and `--context NAME`, as kubectl reads them;
2. `--data DIR`: the server of that data directory;
3. the local server: that of the default data directory, or the one that `pykueue user add` wrote a kubeconfig for;
4. KUBECONFIG, if no local server was ever set up.

As kubectl's plugin (`kubectl pykueue`), the kubeconfig that kubectl itself reads comes before 3, if there is one.

A local server that was set up and does not respond is an error, not a reason to use KUBECONFIG, which is often exported
and may name a production cluster.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from pykueue.base.datafolder import KUBECONFIG
from pykueue.base.struct import Frozen
from pykueue.cli.plugin import is_plugin
from pykueue.cli.serverstate import (
    OWN_KUBECONFIG,
    STANDING,
    ServerRecord,
    data_folder,
    data_option,
    exit_not_owner,
    fail,
    read_record,
)
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.kubeconfig import KubeconfigError, connection, from_files

VARIABLE: Final = "KUBECONFIG"
KUBECTLS_OWN: Final = Path(".kube/config")
"""kubectl's default kubeconfig, relative to the home directory."""
CHOOSE: Final = "--kubeconfig FILE or --context NAME"


class Target(Frozen):
    """The server that a command talks to."""

    connection: Connection
    name: str
    """A description, shown after the address."""
    files: tuple[str, ...]
    """The kubeconfig files it was found by."""
    context: str | None = None
    folder: Path | None = None
    """The data directory, if it was found by that."""
    local: bool = False
    environment: Mapping[str, str] = {}

    @property
    def file(self) -> str:
        """The kubeconfig with our credentials."""
        return os.pathsep.join(self.files)

    def described(self) -> str:
        """Its address and description."""
        return f"{self.connection.server} ({self.name})"

    def kubectl(self, *words: str) -> str:
        """A shell command that runs kubectl against the same server."""
        files = [str(Path(file).absolute()) for file in self.files]
        context = ["--context", self.context] if self.context else []
        if len(files) == 1:
            return shlex.join(["kubectl", "--kubeconfig", *files, *context, *words])
        return f"{VARIABLE}={shlex.quote(os.pathsep.join(files))} {shlex.join(['kubectl', *context, *words])}"

    def pykueue(self, *words: str) -> str:
        """A shell command that runs pykueue against the same server, in any terminal of this user."""
        if self.local:
            # Another terminal may have no XDG_DATA_HOME.
            usual = data_folder(environment={"HOME": str(home(self.environment))})
            chosen = [] if self.folder in (None, usual) else ["--data", str(self.folder)]
            return shlex.join(["pykueue", *words[:1], *chosen, *words[1:]])
        context = ["--context", self.context] if self.context else []
        files = [str(Path(file).absolute()) for file in self.files]
        if len(files) == 1:
            return shlex.join(["pykueue", *words[:1], "--kubeconfig", *files, *context, *words[1:]])
        named = f"{VARIABLE}={shlex.quote(os.pathsep.join(files))}"
        return f"{named} {shlex.join(['pykueue', *words[:1], *context, *words[1:]])}"

    def unanswered(self, error: object) -> str:
        """What to print when it does not respond, with this error."""
        if self.folder is None or runs(self.folder):
            return f"{self.connection.server}: {error}{self.hint()}"
        return (
            f"no server is running on {self.folder} ({self.connection.server} does not respond); start it with "
            f"`pykueue up{data_option(self.folder, self.environment)}`{besides(self.connection, self.environment)}"
        )

    def hint(self) -> str:
        """What to do when it does not respond."""
        if not self.local:
            return ""
        advice = "ask its administrator"
        if self.folder is not None:
            advice = f"start it with `pykueue up{data_option(self.folder, self.environment)}`"
        return f"; if the server is not running, {advice}{besides(self.connection, self.environment)}"


def chosen(
    kubeconfig: str | None = None,
    context: str | None = None,
    data: str | None = None,
    *,
    must_run: bool = False,
    environment: Mapping[str, str] = os.environ,
    plugin: bool | None = None,
) -> Target:
    """The server to talk to; exits with an error if there is none.

    With `must_run`, exits with code 1 if no server runs on the data directory. `plugin` says whether kubectl started
    this program, by default from its name.
    """
    plugin = is_plugin() if plugin is None else plugin
    if kubeconfig:
        return reached((kubeconfig,), context, f"{shown_context(context)}{kubeconfig}", environment)
    if context:
        files = exported(environment) or default_kubeconfig(environment)
        if not files:
            fail(
                f"--context: no kubeconfig to look up {context!r} in: {VARIABLE} is not set and "
                f"{home(environment) / KUBECTLS_OWN} does not exist; add --kubeconfig FILE"
            )
        return reached(files, context, f"{shown_context(context)}{os.pathsep.join(files)}", environment)
    if plugin and data is None and (files := exported(environment) or default_kubeconfig(environment)):
        return reached(files, None, f"kubectl's {os.pathsep.join(files)}", environment)
    folder = data_folder(data, environment)
    own = own_kubeconfig(environment)
    if data is not None or (is_set_up(folder) and (runs(folder) or not own.exists())):
        return of_folder(folder, must_run=must_run, environment=environment)
    if own.exists():
        name = "the local server of `pykueue user add`"
        return reached((str(own),), None, name, environment, local=True)
    files = exported(environment)
    if files:
        return reached(files, None, f"{VARIABLE}={environment[VARIABLE]}", environment)
    exit_no_server(folder, must_run=must_run, environment=environment)


def of_folder(folder: Path, *, must_run: bool, environment: Mapping[str, str] = os.environ) -> Target:
    """The server of a data directory."""
    if must_run and not runs(folder):
        exit_no_server(folder, must_run=True, environment=environment)
    file = folder / KUBECONFIG
    if not readable(file):
        exit_no_server(folder, must_run=False, environment=environment)
    return reached((str(file),), None, f"the local server of {folder}", environment, folder=folder, local=True)


def exit_no_server(folder: Path, *, must_run: bool, environment: Mapping[str, str]) -> NoReturn:
    """Exit because no server was found."""
    other = besides(own_connection(folder, environment), environment)
    advice = (
        f"start one with `pykueue up{data_option(folder, environment)}`, or ask the administrator of a shared server "
        "to run `pykueue user add`"
    )
    if must_run:
        fail(f"no server is running on {folder}; {advice}{other}", 1)
    fail(f"no server found: {folder / KUBECONFIG} does not exist; {advice}, or choose a server with {CHOOSE}{other}")


def reached(
    files: tuple[str, ...],
    context: str | None,
    name: str,
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    local: bool = False,
) -> Target:
    """The target of these kubeconfig files."""
    try:
        found = from_files(tuple(map(Path, files)), context, environment)
    except (KubeconfigError, CredentialError) as error:
        fail(str(error))
    if not local and context is None and len(files) == 1:
        folder = folder_of(Path(files[0]))
        local = folder is not None or Path(files[0]) == own_kubeconfig(environment)
    return Target(found, name, files, context, folder, local, environment)


def folder_of(file: Path) -> Path | None:
    """The data directory of the local server whose own kubeconfig this is; None if it is another one."""
    folder = file.absolute().parent
    try:
        return folder if file.name == KUBECONFIG and (folder / STANDING).exists() else None
    except PermissionError:
        return None


def own_connection(folder: Path, environment: Mapping[str, str]) -> Connection | None:
    """The connection of a data directory's server; None if its kubeconfig cannot be read."""
    try:
        return from_files((folder / KUBECONFIG,), None, environment)
    except (KubeconfigError, CredentialError):
        return None


def besides(chosen: Connection | None, environment: Mapping[str, str]) -> str:
    """A note that KUBECONFIG names another server, which is not used; empty if it does not."""
    if not environment.get(VARIABLE):
        return ""
    try:
        server = connection(environment=environment).server
    except KubeconfigError:
        return ""
    if chosen is not None and server == chosen.server:
        return ""
    return (
        f"; {VARIABLE}={environment[VARIABLE]} names {server}, which is ignored because a local server was set up; to "
        f"use it, add {CHOOSE}"
    )


def is_set_up(folder: Path) -> bool:
    """Whether a server was ever started on a data directory."""
    return readable(folder / KUBECONFIG) or readable(folder / STANDING)


def readable(file: Path) -> bool:
    """Whether a file of a data directory exists; exits if the directory belongs to another user."""
    try:
        return file.exists()
    except PermissionError:
        exit_not_owner(file.parent)


def runs(folder: Path) -> bool:
    """Whether a server runs on a data directory."""
    standing = read_record(folder)
    return standing is not None and standing.runs


def running(data: str | None) -> tuple[Path, ServerRecord]:
    """The data directory and record of a running server; exits with code 1 if none runs."""
    folder = data_folder(data)
    standing = read_record(folder)
    if standing is None or not standing.runs:
        fail(f"no server is running on {folder}; start it with `pykueue up{data_option(folder)}` first", 1)
    return folder, standing


def exported(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The files in KUBECONFIG that exist; exits if it names files and none exists."""
    named = tuple(one for one in dict.fromkeys(environment.get(VARIABLE, "").split(os.pathsep)) if one)
    there = tuple(one for one in named if Path(one).exists())
    if named and not there:
        fail(f"{VARIABLE}: no file of {environment[VARIABLE]!r} exists; correct the variable, or unset it")
    return there


def default_kubeconfig(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The kubeconfig that kubectl reads without KUBECONFIG, if it exists."""
    file = home(environment) / KUBECTLS_OWN
    return (str(file),) if file.exists() else ()


def own_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Where `pykueue user add` writes the kubeconfig of the current user."""
    return home(environment) / OWN_KUBECONFIG


def home(environment: Mapping[str, str]) -> Path:
    """The home directory."""
    return Path(environment.get("HOME") or "/")


def shown_context(context: str | None) -> str:
    """The start of a description if a context was named."""
    return f"context {context} of " if context else ""
