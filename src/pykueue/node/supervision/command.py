"""Start a command in a fork of its supervisor: its limits, its account, its standard streams.

Supervisors use it, so it imports next to nothing.
"""

import ctypes
import errno
import fcntl
import functools
import os
import resource
import signal
import termios
from typing import Final, NamedTuple, TypeAlias

Request: TypeAlias = dict[str, object]
"""What to run; `spawn.Start` says what is in it."""

PR_SET_PDEATHSIG: Final = 1
DATA_MIN: Final = 128 << 10
"""Below this RLIMIT_DATA no program can be loaded: it crashes before it can print a reason."""
OOM_SCORE: Final = b"500"
"""If the machine runs out of memory, a container is killed before the server."""

CLONE3: Final = 435
"""The number of this system call, on all architectures."""
CLONE_INTO_CGROUP: Final = 0x200000000

LIBC: Final = ctypes.CDLL(None, use_errno=True)
SYSCALLS: Final = ctypes.PyDLL(None)
"""Calls that keep the interpreter's lock, so that a fork has it too."""
SYSCALLS.syscall.restype = ctypes.c_long


class CloneArguments(ctypes.Structure):
    """`struct clone_args` of clone3(2)."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        )
    )


class StartError(Exception):
    """The command cannot be started."""


class Streams(NamedTuple):
    """The descriptors that become the standard streams of a command."""

    input: int
    """-1 for an empty standard input."""
    output: int
    errors: int
    terminal: bool
    """Whether all three are one terminal, which the command controls."""


def start(request: Request, cgroup: str, streams: Streams) -> tuple[int, int]:
    """Fork a process that becomes a command; returns its pid, and a pipe.

    The pipe says why the command could not be started, and is closed once it has been, or the process has ended.
    """
    report, reporter = os.pipe2(os.O_CLOEXEC)
    try:
        child = fork_into(cgroup) if cgroup else None
        if child is None:
            child = os.fork()
        else:
            # It need not move there.
            cgroup = ""
    except OSError:
        os.close(report)
        os.close(reporter)
        raise
    if not child:
        try:
            become(request, cgroup, streams)
        except BaseException as error:
            os.write(reporter, (str(error) or repr(error)).encode(errors="replace")[:4096])
        finally:
            os._exit(127)
    os.close(reporter)
    return child, report


def fork_into(cgroup: str) -> int | None:
    """Fork a process that is in a cgroup from its beginning; None if the kernel refuses.

    To move a process, the kernel waits until all processors have passed a quiet state, often for 10 ms. Python's hooks
    for forks do not run: they serve other threads, which a supervisor does not have.
    """
    try:
        folder = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    arguments = CloneArguments(flags=CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=folder)
    child: int = SYSCALLS.syscall(
        ctypes.c_long(CLONE3), ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments))
    )
    os.close(folder)
    return None if child < 0 else child


def become(request: Request, cgroup: str, streams: Streams) -> None:
    """Turn this fork into the command, in this cgroup if any. Privileges are dropped in the right order."""
    os.setsid()
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as file:
            file.write("0")
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(score, OOM_SCORE)
        os.close(score)
    except OSError:
        pass
    ids = request["ids"]
    assert ids is None or isinstance(ids, tuple)
    if streams.terminal:
        fcntl.ioctl(streams.output, termios.TIOCSCTTY, 0)
        if ids is not None:
            # Programs such as tmux open their terminal by its name.
            os.fchown(streams.output, ids[0], -1)
    os.dup2(streams.input if streams.input >= 0 else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(streams.output, 1)
    os.dup2(streams.errors, 2)
    mask = request["umask"]
    assert isinstance(mask, int)
    os.umask(mask)
    if ids is not None:
        os.setgroups(ids[2])
        os.setresgid(ids[1], ids[1], ids[1])
        os.setresuid(ids[0], ids[0], ids[0])
    limits = request["rlimits"]
    assert isinstance(limits, list)
    for which, value in limits:
        hard = resource.getrlimit(which)[1]
        if which == resource.RLIMIT_DATA and value < DATA_MIN:
            raise StartError("container init was OOM-killed (memory limit too low?)")
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (least, least))
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    argv, env, cwd = request["argv"], request["env"], request["cwd"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    assert isinstance(cwd, bytes)
    try:
        os.chdir(cwd)
    except OSError as error:
        raise StartError(f'chdir to cwd ("{cwd.decode(errors="replace")}") failed: {lower(error)}') from error
    for number in ignored():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        execute(argv, env)
    except OSError as error:
        shown = argv[0].decode(errors="replace")
        message = lower(error) if found(argv[0], env) else "executable file not found in $PATH"
        raise StartError(f'exec: "{shown}": {message}') from error


@functools.cache
def ignored() -> tuple[int, ...]:
    """The ignored signals: some by us, and a server started in the background may have inherited more."""
    return tuple(int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN)


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Replace this process with a command that is looked up in PATH; an `OSError` says why that failed."""
    name = argv[0]
    if b"/" in name:
        os.execve(name, argv, env)
    problem: OSError | None = None
    missing: OSError | None = None
    for folder in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        try:
            os.execve(os.path.join(folder, name), argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            problem = problem or error
    raise problem or missing or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def found(name: bytes, env: dict[bytes, bytes]) -> bool:
    """Whether the file exists at all; a path is left to exec to check."""
    return b"/" in name or any(os.path.exists(folder + b"/" + name) for folder in env.get(b"PATH", b"").split(b":"))


def lower(error: OSError) -> str:
    """An error in the words of container runtimes."""
    return (error.strerror or str(error)).lower()
