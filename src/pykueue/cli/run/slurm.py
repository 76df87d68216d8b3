"""Translate the options of `#SBATCH` lines into those of `pykueue run`, and say which have no equivalent."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from pykueue.base.struct import Frozen
from pykueue.cli.run.outputfile import unknown_patterns

SHORT: Final = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}
"""The short options of sbatch."""
FLAGS: Final = frozenset(
    (
        *("contiguous", "exclusive", "hold", "ignore-pbs", "no-kill", "no-requeue", "overcommit", "oversubscribe"),
        *("parsable", "quiet", "reboot", "requeue", "spread-job", "test-only", "verbose", "wait"),
    )
)
"""Options that take no value, or need none."""
SAME: Final = frozenset(("parsable", "quiet", "verbose", "wait", "requeue", "ignore-pbs", "overcommit", "no-kill"))
"""Options that ask for what happens anyway, or concern sbatch itself."""
IGNORED: Final = {
    "account": "choose a queue instead",
    "comment": "use a label of the Job",
    "distribution": "each task is one process",
    "error": "standard error is read with the rest of the output",
    "hint": "cores are not bound",
    "input": "redirect inside the script",
    "mail-type": "mail is not sent",
    "mail-user": "mail is not sent",
    "nice": "choose a class with --priority",
    "open-mode": "the output file is replaced",
    "oversubscribe": "the quota of the queue applies",
    "priority": "choose a class with --priority",
    "profile": "profiles are not recorded",
    "threads-per-core": "cores are not bound",
    "wckey": "there are no accounts",
}
"""Options that are left out with a warning: the job runs as it would with them."""
ADVICE: Final = {
    "chdir": "use cd in the script, or submit from that directory",
    "constraint": "choose a queue with such nodes",
    "exclude": "choose a queue with other nodes",
    "exclusive": "request all cores with --cpus-per-task",
    "hold": "use --begin, or submit it later",
    "nodelist": "choose a queue with such nodes",
    "wrap": "pass the command to `pykueue run` itself",
}
"""What to do instead of an option without which the job would be another one."""
ONE: Final = ("nodes", "ntasks", "ntasks-per-node", "tasks-per-node")
MEMORY: Final = re.compile(r"([0-9]{1,12})([kKmMgGtT])?", re.ASCII)
GPUS: Final = re.compile(r"(?:gpu:?)?(?:(?P<type>[A-Za-z_][\w.-]*):?)?(?P<count>[0-9]{1,6})?", re.ASCII)
DEPENDENCIES: Final = {"afterany": "--after", "afterok": "--after-ok"}


class SlurmError(ValueError):
    """An option of Slurm that cannot be translated."""


class Translated(Frozen):
    """What an option of Slurm means here."""

    words: tuple[str, ...] = ()
    """Options of `pykueue run`."""
    warning: str = ""


NOTHING: Final = Translated()
Rule: TypeAlias = Callable[[str], Translated]


def translated(words: Sequence[str]) -> Iterator[Translated]:
    """What the options in a line mean; raises `SlurmError`."""
    for name, value in options(words):
        if name in SAME:
            continue
        if name in IGNORED:
            yield Translated(warning=f"--{name} is ignored: {IGNORED[name]}")
        elif name in RULES:
            yield RULES[name](value)
        elif name in ONE:
            if value not in ("1", "1-1"):
                raise SlurmError(f"--{name}={value} has no equivalent: a job is one process; use --array for several")
        else:
            advice = ADVICE.get(name, "remove the line, or write the option of `pykueue run` in a #PYKUEUE line")
            raise SlurmError(f"--{name} has no equivalent; {advice}")


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The long names and values of options as sbatch reads them."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            if word[1] not in SHORT:
                raise SlurmError(f"{word} is not an option of sbatch")
            name, value = SHORT[word[1]], word[2:].removeprefix("=")
            equals = value
        else:
            raise SlurmError(f"{word!r} is not an option")
        if not equals and name not in FLAGS:
            if not rest:
                raise SlurmError(f"--{name} requires a value")
            value = rest.pop(0)
        yield name, value


def passed(option: str) -> Rule:
    """A rule that passes the value on to an option of ours."""
    return lambda value: Translated((option, value))


def memory(value: str) -> str:
    """An amount of memory, which Slurm reads in MB, that is MiB."""
    found = MEMORY.fullmatch(value)
    if found is None or int(found[1]) == 0:
        raise SlurmError(f"{value!r} is not a valid amount of memory; write 8G or 800M")
    return f"{found[1]}{(found[2] or 'M').upper()}i"


def gpus(value: str) -> Translated:
    """GPUs: `2`, `a100:2`, `gpu:2`, `gpu:a100:2` or `gpu`."""
    found = GPUS.fullmatch(value)
    if found is None:
        raise SlurmError(
            f"{value!r} has no equivalent; request GPUs with --gres=gpu:N, other resources with a Job in YAML"
        )
    kind = found["type"]
    warning = f"the GPU type {kind} is ignored; choose a queue with such GPUs" if kind else ""
    return Translated(("--gpu", found["count"] or "1"), warning)


def gres(value: str) -> Translated:
    """Generic resources, of which GPUs are known."""
    if not re.match(r"gpu(:|$)", value):
        raise SlurmError(f"--gres={value} has no equivalent; request GPUs with --gres=gpu:N")
    return gpus(value)


def output(value: str) -> Translated:
    """The file for the output, unless its name has a pattern without a meaning here."""
    if unknown := unknown_patterns(value):
        return Translated(
            warning=f"--output={value} is ignored: {unknown[0]} has no equivalent; the output is in the log of the job"
        )
    return Translated(("--output", value))


def dependency(value: str) -> Translated:
    """The jobs to wait for, by name."""
    found: list[str] = []
    for one in value.split(","):
        kind, *names = one.split(":")
        if kind not in DEPENDENCIES or not names or not all(names) or "?" in one:
            raise SlurmError(
                f"--dependency={one} has no equivalent; use afterany:JOB or afterok:JOB, with names of Jobs"
            )
        for name in names:
            found += (DEPENDENCIES[kind], name)
    return Translated(tuple(found))


def export(value: str) -> Translated:
    """The variables to pass on."""
    found: list[str] = []
    for one in value.split(","):
        if one == "ALL":
            found.append("--env-all")
        elif one not in ("NONE", "NIL"):
            found += ("--env", one)
    return Translated(tuple(found))


RULES: Final[dict[str, Rule]] = {
    "array": passed("--array"),
    "begin": passed("--begin"),
    "cpus-per-task": passed("--cpu"),
    "dependency": dependency,
    "export": export,
    "gpus": gpus,
    "gpus-per-node": gpus,
    "gpus-per-task": gpus,
    "gres": gres,
    "job-name": passed("--name-prefix"),
    "mem": lambda value: Translated(("--memory", memory(value))),
    "mem-per-cpu": lambda value: Translated(("--memory-per-cpu", memory(value))),
    "no-requeue": lambda _: Translated(("--no-requeue",)),
    "output": output,
    "partition": passed("--queue"),
    "qos": passed("--priority"),
    "time": passed("--time"),
}
"""What is translated; the rest is the same, ignored with a warning, or refused."""
