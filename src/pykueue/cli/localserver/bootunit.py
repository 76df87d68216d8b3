"""Install and remove the systemd unit that starts `pykueue up` at boot.

Root gets a system unit, another user a unit of their own `systemd --user`. The unit asks the server to start jobs in
scopes of a slice of their own (`node.jobscope`), so that jobs outlive a restart of the service.
"""

import difflib
import getpass
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.cli.serverstate import ServerRecord, fail
from pykueue.node.jobscope import SLICE

NAME: Final = "pykueue.service"
JOBS_SLICE: Final = "pykueue-jobs.slice"
MARK: Final = "# Written by `pykueue up --install`; `pykueue up --uninstall` removes it."
BOOTED: Final = Path("/run/systemd/system")
"""Exists if systemd is the init system (sd_booted)."""
LINGER: Final = Path("/var/lib/systemd/linger")
PLAIN: Final = re.compile(r"[-A-Za-z0-9_./:=,@+~]+")
ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "%": "%%"}
TEMPLATE: Final = """\
{mark}
[Unit]
Description=Job queues of this machine (pykueue)
After=network.target
RequiresMountsFor={data}

[Service]
Type=notify
ExecStart={command}
Environment={slice}
KillMode=mixed
TimeoutStartSec=300
TimeoutStopSec={stop}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=2

[Install]
WantedBy={target}
"""

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class Place(Frozen):
    """Where a unit is installed."""

    file: Path
    root: bool

    @property
    def systemctl(self) -> tuple[str, ...]:
        """The command that controls its manager."""
        return ("systemctl",) if self.root else ("systemctl", "--user")

    def said(self, *words: str) -> str:
        """A command for its manager, to show to the user."""
        return shlex.join((*self.systemctl, *words))


def place(*, root: bool, home: Path, config_home: str = "") -> Place:
    """Where root's unit belongs, or that of the user with this home directory and XDG_CONFIG_HOME."""
    if root:
        return Place(Path("/etc/systemd/system") / NAME, root)
    # The XDG specification says to ignore relative paths.
    base = Path(config_home) if config_home.startswith("/") else home / ".config"
    return Place(base / "systemd/user" / NAME, root)


def own_place() -> Place:
    """Where the unit of this user belongs."""
    return place(
        root=os.geteuid() == 0,
        home=Path(os.environ.get("HOME") or "/"),
        config_home=os.environ.get("XDG_CONFIG_HOME", ""),
    )


def unit(command: Sequence[str], *, data: Path, root: bool, terminates: bool) -> str:
    """The text of the unit that runs a command; exits if a word of it cannot be in a unit."""
    text = TEMPLATE.format(
        mark=MARK,
        data=quoted(str(data)),
        # The name of the program is not searched for variables, so its dollar signs are not doubled.
        command=" ".join([quoted(command[0]), *(quoted(word).replace("$", "$$") for word in command[1:])]),
        slice=f"{SLICE}={JOBS_SLICE}",
        # A server that terminates jobs waits for their grace periods.
        stop="infinity" if terminates else 90,
        target="multi-user.target" if root else "default.target",
    )
    try:
        text.encode()
    except UnicodeEncodeError:
        fail("--install: an option is not valid UTF-8, which systemd units require; use other file names")
    return text


def quoted(word: str) -> str:
    """A word as systemd reads it in a unit; variables are not escaped."""
    if PLAIN.fullmatch(word):
        return word
    inside = "".join(ESCAPES.get(one) or (f"\\x{ord(one):02x}" if one < " " or one == "\x7f" else one) for one in word)
    return f'"{inside}"'


def executed(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command, and capture its output."""
    return subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def install(where: Place, text: str, standing: ServerRecord | None, run: Run = executed, *, cgroups: str = "") -> str:
    """Write, load and enable the unit; returns the message for the user, exits if it cannot."""
    need_systemd()
    if standing is not None and standing.runs and not in_unit(cgroups or cgroups_of(standing.pid)):
        fail(
            f"--install: a server that systemd did not start is running: {standing.server}, process {standing.pid}; "
            "stop it with `pykueue down`, which lets jobs continue, and install again",
            1,
        )
    before = read(where.file)
    if before is not None and before != text:
        difference = "\n".join(
            difflib.unified_diff(before.splitlines(), text.splitlines(), str(where.file), "wanted", lineterm="")
        )
        advice = "remove it with `pykueue up --uninstall`" if MARK in before else "remove it, or edit it yourself"
        fail(f"{where.file}: exists and differs; {advice}, and install again\n{difference}", 1)
    try:
        where.file.parent.mkdir(parents=True, exist_ok=True)
        where.file.write_text(text)
    except OSError as error:
        fail(f"{where.file}: cannot be written: {error.strerror}", 1)
    for words in (("daemon-reload",), ("enable", NAME)):
        done = run((*where.systemctl, *words))
        if done.returncode:
            if before is None:
                where.file.unlink(missing_ok=True)
            fail(f"`{where.said(*words)}` failed, and nothing was installed: {done.stderr.strip()}", 1)
    lines = [
        f"Installed {where.file}; the server starts at boot.",
        f"Start it now:  {where.said('start', 'pykueue')}",
        f"Its log:       journalctl {'' if where.root else '--user '}-u pykueue",
    ]
    if not where.root and not (LINGER / getpass.getuser()).exists():
        lines.append("It starts when you log in and ends when you log out; to start it at boot: loginctl enable-linger")
    return "\n".join(lines)


def uninstall(where: Place, run: Run = executed) -> str:
    """Disable and remove the unit; returns the message for the user, exits if it cannot. A running server continues."""
    before = read(where.file)
    if before is None:
        fail(f"{where.file}: does not exist; no unit is installed for this user", 1)
    if MARK not in before:
        fail(
            f"{where.file}: was not written by `pykueue up --install`; to remove it: "
            f"{where.said('disable', '--now', 'pykueue')} && rm {shlex.quote(str(where.file))}",
            1,
        )
    need_systemd()
    done = run((*where.systemctl, "disable", NAME))
    if done.returncode:
        fail(f"`{where.said('disable', NAME)}` failed: {done.stderr.strip()}", 1)
    try:
        where.file.unlink(missing_ok=True)
    except OSError as error:
        fail(f"{where.file}: cannot be removed: {error.strerror}", 1)
    run((*where.systemctl, "daemon-reload"))
    return f"Removed {where.file}. A server that is running continues; stop it with `pykueue down`."


def need_systemd() -> None:
    """Exit if this machine is not run by systemd."""
    if shutil.which("systemctl") is None or shutil.which("systemd-run") is None:
        fail("systemctl or systemd-run not found in PATH; without systemd, use `pykueue up --detach`", 1)
    if not BOOTED.exists():
        fail("this machine was not booted with systemd; use `pykueue up --detach` from its own init system", 1)


def read(file: Path) -> str | None:
    """The text of a unit; None if there is none."""
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", 1)


def cgroups_of(pid: int) -> str:
    """The cgroups of a process."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def in_unit(cgroups: str) -> bool:
    """Whether these are the cgroups of a process of our unit."""
    return any(f"/{NAME}" in line for line in cgroups.splitlines())
