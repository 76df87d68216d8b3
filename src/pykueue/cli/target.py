"""Which server does a command talk to? One rule for every command, and what to say of the server that it chose.

In this order:

1. `--kubeconfig FILE` and `--context NAME`, as kubectl reads them;
2. `--data DIR`: the server of that data folder;
3. the local server: the one of the usual data folder, or the one that `pykueue user add` wrote a kubeconfig for;
4. KUBECONFIG, where no local server was ever set up.

A local server that was set up and does not answer is an error. It is no reason to go on to KUBECONFIG: that is often
exported, and may name a production cluster.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from pykueue.base.datafolder import KUBECONFIG
from pykueue.base.struct import Frozen
from pykueue.cli.serverstate import (
    HOW_TO_GET_ONE,
    OWN_KUBECONFIG,
    STANDING,
    Standing,
    anothers,
    data_folder,
    fail,
    read_standing,
)
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import CredentialError
from pykueue.kube.client.kubeconfig import KubeconfigError, connection, from_files

VARIABLE: Final = "KUBECONFIG"
KUBECTLS_OWN: Final = Path(".kube/config")
"""Where kubectl looks without KUBECONFIG, from the home folder."""
CHOOSE: Final = "--kubeconfig FILE or --context NAME"


class Target(Frozen):
    """The server that a command talks to."""

    connection: Connection
    name: str
    """What it is, for people; follows its address."""
    files: tuple[str, ...]
    """The kubeconfig files that lead to it."""
    context: str | None = None
    folder: Path | None = None
    """The data folder, where it was found by that."""
    local: bool = False
    environment: Mapping[str, str] = {}

    @property
    def file(self) -> str:
        """The kubeconfig that says who we are."""
        return os.pathsep.join(self.files)

    def described(self) -> str:
        """Its address and what it is."""
        return f"{self.connection.server} ({self.name})"

    def kubectl(self, *words: str) -> str:
        """A line for a shell in which kubectl talks to the same server."""
        files = [str(Path(file).absolute()) for file in self.files]
        context = ["--context", self.context] if self.context else []
        if len(files) == 1:
            return shlex.join(["kubectl", "--kubeconfig", *files, *context, *words])
        return f"{VARIABLE}={shlex.quote(os.pathsep.join(files))} {shlex.join(['kubectl', *context, *words])}"

    def hint(self) -> str:
        """What to do where it does not answer."""
        if not self.local:
            return ""
        start = f" --data {shlex.quote(str(self.folder))}" if self.folder not in (None, data_folder()) else ""
        advice = f"`pykueue up{start}` starts it" if self.folder is not None else "ask whoever runs it"
        return f"; is the server up? {advice}{besides(self.connection, self.environment)}"


def chosen(
    kubeconfig: str | None = None,
    context: str | None = None,
    data: str | None = None,
    *,
    must_run: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """The server to talk to; says what is wrong and ends where there is none.

    With `must_run`, a data folder on which nothing runs ends the command with code 1.
    """
    if kubeconfig:
        return reached((kubeconfig,), context, f"{shown_context(context)}{kubeconfig}", environment)
    if context:
        files = exported(environment) or kubectls_own(environment)
        if not files:
            fail(
                f"--context: {context!r} is looked for in {VARIABLE}, which is not set, and in "
                f"{home(environment) / KUBECTLS_OWN}, which is not there; give --kubeconfig FILE"
            )
        return reached(files, context, f"{shown_context(context)}{os.pathsep.join(files)}", environment)
    folder = data_folder(data, environment)
    own = own_kubeconfig(environment)
    if data is not None or (is_set_up(folder) and (runs(folder) or not own.exists())):
        return of_folder(folder, must_run=must_run, environment=environment)
    if own.exists():
        name = "the local server that `pykueue user add` let you into"
        return reached((str(own),), None, name, environment, local=True)
    files = exported(environment)
    if files:
        return reached(files, None, f"{VARIABLE}={environment[VARIABLE]}", environment)
    nowhere(folder, must_run=must_run, environment=environment)


def of_folder(folder: Path, *, must_run: bool, environment: Mapping[str, str] = os.environ) -> Target:
    """The server of a data folder."""
    if must_run and not runs(folder):
        nowhere(folder, must_run=True, environment=environment)
    file = folder / KUBECONFIG
    if not readable(file):
        nowhere(folder, must_run=False, environment=environment)
    return reached((str(file),), None, f"the local server of {folder}", environment, folder=folder, local=True)


def nowhere(folder: Path, *, must_run: bool, environment: Mapping[str, str]) -> NoReturn:
    """Say that nothing says where a server is, and end."""
    other = besides(own_connection(folder, environment), environment)
    if must_run:
        fail(f"nothing runs on {folder}; {HOW_TO_GET_ONE}{other}", 1)
    fail(
        f"{folder / KUBECONFIG}: is not there, so nothing says where the server is; {HOW_TO_GET_ONE}, or choose one "
        f"with {CHOOSE}{other}"
    )


def reached(
    files: tuple[str, ...],
    context: str | None,
    name: str,
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    local: bool = False,
) -> Target:
    """The target that these files lead to."""
    try:
        found = from_files(tuple(map(Path, files)), context, environment)
    except (KubeconfigError, CredentialError) as error:
        fail(str(error))
    return Target(found, name, files, context, folder, local, environment)


def own_connection(folder: Path, environment: Mapping[str, str]) -> Connection | None:
    """How the server of a data folder is reached when it runs; None where its kubeconfig cannot be read."""
    try:
        return from_files((folder / KUBECONFIG,), None, environment)
    except (KubeconfigError, CredentialError):
        return None


def besides(chosen: Connection | None, environment: Mapping[str, str]) -> str:
    """That KUBECONFIG names another server, which was not asked; empty where it names none, or the same."""
    if not environment.get(VARIABLE):
        return ""
    try:
        server = connection(environment=environment).server
    except KubeconfigError:
        return ""
    if chosen is not None and server == chosen.server:
        return ""
    return (
        f"; {VARIABLE}={environment[VARIABLE]} names {server}, which was not asked as a local server was set up: to "
        f"use it, give {CHOOSE}"
    )


def is_set_up(folder: Path) -> bool:
    """Whether a server was ever started on a data folder."""
    return readable(folder / KUBECONFIG) or readable(folder / STANDING)


def readable(file: Path) -> bool:
    """Whether a file of a data folder is there; says so and ends if the folder is another user's."""
    try:
        return file.exists()
    except PermissionError:
        anothers(file.parent)


def runs(folder: Path) -> bool:
    """Whether a server runs on a data folder."""
    standing = read_standing(folder)
    return standing is not None and standing.runs


def running(data: str | None) -> tuple[Path, Standing]:
    """The data folder of a server that runs, and where it is reached; says so and ends where none does."""
    folder = data_folder(data)
    standing = read_standing(folder)
    if standing is None or not standing.runs:
        fail(f"nothing runs on {folder}; start it with `pykueue up` first", 1)
    return folder, standing


def exported(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The files that KUBECONFIG names and that are there; ends where it names only others."""
    named = tuple(one for one in dict.fromkeys(environment.get(VARIABLE, "").split(os.pathsep)) if one)
    there = tuple(one for one in named if Path(one).exists())
    if named and not there:
        fail(f"{VARIABLE}: none of {environment[VARIABLE]!r} exists; correct it, or unset it")
    return there


def kubectls_own(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The kubeconfig that kubectl reads without KUBECONFIG, where it is there."""
    file = home(environment) / KUBECTLS_OWN
    return (str(file),) if file.exists() else ()


def own_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Where `pykueue user add` puts the kubeconfig of the present user."""
    return home(environment) / OWN_KUBECONFIG


def home(environment: Mapping[str, str]) -> Path:
    """The home folder."""
    return Path(environment.get("HOME") or "/")


def shown_context(context: str | None) -> str:
    """How a description begins where a context was named."""
    return f"context {context} of " if context else ""
