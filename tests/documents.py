"""The commands in the documents: find them, parse them as the command line would, and run them in a sandbox."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pykueue.base.struct import Frozen
from pykueue.cli.main import cli
from tests.docsite.pages import pages
from tests.patience import slowness
from tests.storyfile import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:kubectl )?pykueue [^`]+)`")
PROMPT = re.compile(r"[$#] ")
COMMANDS = ("sh", "console")
"""Languages of blocks with commands: `sh` is a script; in `console` commands follow a prompt, `#` for root."""
PAGES = tuple(page for page in pages(ROOT) if page != "CHANGELOG.md")
"""All pages but the history, which names commands as they were."""
SEPARATORS = frozenset("|&;()\n")
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
ENTER = """
python -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
mkdir -p home/.local/share
export HOME="$PWD/home"
echo 'echo "on a terminal"; exit' > home/.bashrc
if [ "$(id -u)" = 0 ]; then
    mount --make-rprivate /
    mkdir -p var/lib var/backups etc run/systemd/system
    cp -a /etc/. etc
    mount --bind var /var
    mount --bind etc /etc
    mount --bind run /run
    ln -s /var/lib/pykueue home/.local/share/pykueue
    account=5000
    for name in alice bob guest; do
        account=$((account + 1))
        mkdir -p "/var/home/$name"
        chown "$account:$account" "/var/home/$name"
        echo "$name:x:$account:$account::/var/home/$name:/bin/sh" >> /etc/passwd
    done
fi
cd work
"""
"""A sandbox with a network, processes and, for root, /etc, /var, /run and users of its own."""
RUN_SECONDS = 180.0
LEAVE = """
pykueue cancel --all > /dev/null 2>&1 || true
pykueue down > /dev/null 2>&1 || true
"""


class Block(Frozen):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """Its page and line."""
        return f"{self.page}:{self.line}"

    @property
    def root(self) -> bool:
        """Whether its prompts are root's."""
        return self.language == "console" and self.text.startswith("# ")

    @property
    def typed(self) -> tuple[str, ...]:
        """What a reader types: the script, or each command behind a prompt with the lines that continue it."""
        if self.language != "console":
            return (self.text.rstrip("\n"),)
        found: list[str] = []
        continues = False
        for line in self.text.splitlines():
            if continues:
                found[-1] += f"\n{line}"
            elif PROMPT.match(line):
                found.append(line[2:])
            else:
                continue
            continues = line.rstrip().endswith(("\\", "|", "&&"))
        return tuple(found)


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page=page, line=text[: one.start()].count("\n") + 1, language=one[1], text=one[2])
        for one in FENCE.finditer(text)
    ]


def commands(page: str) -> list[Block]:
    """The blocks of a page that show commands."""
    return [block for block in blocks(page) if block.language in COMMANDS]


def words_of(script: str) -> Iterator[list[str]]:
    """The words of each simple command in a script, also of those in `$(…)`."""
    reader = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars="|&;()<>\n")
    reader.whitespace = " \t"
    reader.whitespace_split = True
    found: list[str] = []
    for word in (*reader, ";"):
        if inner := re.search(r"\$\((.*)\)", word, re.DOTALL):
            yield from words_of(inner[1])
        if not SEPARATORS.issuperset(word):
            found.append(word)
        elif found:
            yield found
            found = []


def without_setting(words: list[str]) -> list[str]:
    """The words of a command without the variables before it and the redirections after it."""
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    ends = [at for at, word in enumerate(words) if word.strip("<>&") == "" and word]
    return words[: ends[0]] if ends else words


def ours(script: str) -> Iterator[list[str]]:
    """The words after `pykueue` of each command of ours in a script."""
    for found in words_of(re.sub(r"<<'(\w+)'\n.*?\n\1$", "", script, flags=re.DOTALL | re.MULTILINE)):
        words = without_setting(found)
        words = words[1:] if words[:2] == ["kubectl", "pykueue"] else words
        if words[:1] == ["pykueue"]:
            yield words[1:]


def parse(words: list[str]) -> None:
    """Parse a command as the command line does, without running it; raises click.UsageError if it cannot."""
    command, ctx, rest = found(words)
    if isinstance(command, click.Group):
        raise click.UsageError(f"a command of {ctx.command_path} is missing")
    command.make_context(ctx.info_name, rest, parent=ctx.parent)


def found(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that words name, its context, and the words after its name; raises click.UsageError."""
    command: click.Command = cli
    ctx = click.Context(cli, info_name="pykueue", **cli.context_settings)
    while isinstance(command, click.Group) and words:
        name, *words = words
        below = command.get_command(ctx, name)
        if below is None:
            raise click.UsageError(f"{ctx.command_path} has no command {name}")
        command, ctx = below, click.Context(below, info_name=name, parent=ctx, **below.context_settings)
    return command, ctx, words


def run(story: list[Block], folder: Path, *, root: bool = False) -> str:
    """Run blocks word by word as one script, with its working directory `folder`/work; returns the output.

    The server, its port and its data directory are those of a sandbox that ends with the script. Programs that do not
    belong to pykueue and need a machine of their own are in `folder`/bin.
    """
    script = "\n".join(on_terminal(one) for block in story for one in block.typed)
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "XDG_DATA_HOME")}
    if root and os.geteuid() != 0:
        pytest.skip("needs root")
    namespaces = NAMESPACES if os.geteuid() == 0 else (*NAMESPACES, "--user", "--map-current-user", "--keep-caps")
    if subprocess.run([*namespaces, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs Linux namespaces")
    (folder / "work").mkdir(exist_ok=True)
    whole = f"{ENTER}\ntrap {shlex.quote(LEAVE)} EXIT\nset -x\n{script}"
    told = folder / "output.txt"
    with told.open("w") as output, contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [*namespaces, "bash", "-eu", "-o", "pipefail", "-c", whole],
            check=False,
            env={**environment, "PATH": path, "TZ": "UTC"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=RUN_SECONDS * slowness(),
        )
        output.write(f"exit code {done.returncode}\n")
    text = told.read_text()
    assert text.endswith("exit code 0\n"), text[-6000:]
    return text


def on_terminal(command: str) -> str:
    """The command, on a terminal if it needs one."""
    if "--interactive" not in command:
        return command
    return f"script --quiet --return --command {shlex.quote(command)} /dev/null"


def program(folder: Path, name: str, text: str) -> None:
    """Write an executable script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
