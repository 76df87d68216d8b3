"""Parses the parameters of `kubectl exec` and `attach` into an `ExecQuery`."""

from typing import Final

from pykueue.api.core import Tree
from pykueue.apiserver.wire.logquery import container_of
from pykueue.apiserver.wire.options import first
from pykueue.apiserver.wire.paths import Query, is_true
from pykueue.apiserver.wire.statuserrors import bad_request
from pykueue.kube.execs import ExecQuery

NO_COMMAND: Final = "you must specify at least 1 command for the container"
NO_STREAM: Final = "you must specify at least 1 of stdin, stdout, stderr"


def exec_query(query: Query, pod: Tree, *, attach: bool) -> ExecQuery:
    """Parse the parameters of a connection; raises `StatusError` if they are invalid."""
    stdin, stdout, stderr, tty = (is_true(query.get(name, ())) for name in ("stdin", "stdout", "stderr", "tty"))
    command = () if attach else tuple(query.get("command", ()))
    if not attach and not any(command):
        raise bad_request(NO_COMMAND)
    if any("\0" in word for word in command):
        raise bad_request("command: contains a NUL byte")
    if not (stdin or stdout or stderr):
        raise bad_request(NO_STREAM)
    return ExecQuery(container_of(pod, first(query, "container")), command, stdin, stdout, stderr, tty)
