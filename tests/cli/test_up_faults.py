"""What if the machine or a client misbehaves? A real `pykueue up`, from outside: a proper error, and it lives.

What a single module does with bad input is tested beside it; here are faults that only a whole server has: a disk that
is full, files that cannot be had, processes that do not end, clients that send nonsense or nothing.
"""

import contextlib
import http.client
import json
import os
import pwd
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykueue.audit.follow import Server
from pykueue.node.setup.limits import pids_default, tasks_of
from pykueue.node.spawn import LOG_BYTES_MAX, LOG_FILES_MAX
from pykueue.node.supervision.processes import process_start
from tests import builders
from tests.cli.machine import Machine, machine_in
from tests.patience import soon
from tests.plane.client import ApiError, Client, Tree

MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MEGABYTE = 1 << 20


class Site:
    """A server, and a client of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.reached = Server.of(str(machine.data / "kubeconfig"))
        authority = machine.data.parent / "ca.pem"
        authority.write_text(self.reached.authority)
        self.authority = str(authority)
        self.client = Client(self.reached.url, self.reached.token, self.authority)
        host, _, port = self.client.host.partition(":")
        self.address = host, int(port)

    def call(self, verb: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Tree]:
        """Code and Status of an answer, on a connection of its own, with the token unless a header says otherwise."""
        connection = http.client.HTTPSConnection(*self.address, context=self.client.tls, timeout=30)
        try:
            sent = {"Authorization": f"Bearer {self.reached.token}", "Content-Type": "application/json", **headers}
            connection.request(verb, path, body, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def lives(self) -> bool:
        """Whether the very same server is ready, and runs a Job to its end."""
        ready = self.client.text("/readyz") == "ok"
        name = f"alive-{os.urandom(4).hex()}"
        self.client.create(job(name, "true"))
        return ready and soon(lambda: self.client.get("Job", name, "default")["status"].get("succeeded") == 1)

    def keep(self, name: str, size: int) -> None:
        """Have so many bytes stored."""
        self.client.create(config(name, "x" * size))

    def await_pod(self, name: str) -> Tree:
        """The pod of a Job, once it runs."""
        assert soon(lambda: any(running(pod) for pod in self.pods(name)))
        return self.pods(name)[0]

    def pods(self, name: str) -> list[Tree]:
        return self.client.objects("Pod", "default", labels=f"job-name={name}")


def config(name: str, text: str = "") -> Tree:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def job(name: str, *command: str, queue: str = "team-a", **container: Any) -> Tree:
    """A Job of one container."""
    brief = {"terminationGracePeriodSeconds": 1}
    pod = builders.pod_spec(spec=brief, command=[*command], workingDir="/", **container)
    return builders.job(name, queue, "default", template={"spec": pod})


def running(pod: Tree) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that tests share which leave it as it was."""
    with machine_in(tmp_path_factory.mktemp("faults")) as made:
        made.up("--on-stop", "terminate")
        found = Site(made)
        yield found
        found.client.close()


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A small disk of its own; the test is skipped where none can be had."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(site: Site) -> None:
    """Store until that is refused."""
    for number in range(200):
        site.keep(f"filling-{number}", MEGABYTE // 2)


def survives_want_of_room(
    site: Site, go: Path, take_room: Callable[[], object], give_room: Callable[[], object]
) -> None:
    """See that nothing of a refused write is there, reads go on, and all works again when there is room.

    Meanwhile a process comes to its end, which must be known afterwards.
    """
    site.keep("before", 10)
    site.client.create(job("meanwhile", "sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.05; done', str(go)))
    pod = site.await_pod("meanwhile")
    take_room()
    with pytest.raises(ApiError, match="check the disk and its free space") as refused:
        fill(site)
    assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")
    stored = {tree["metadata"]["name"] for tree in site.client.objects("ConfigMap", "default")}
    assert "before" in stored
    assert site.client.text("/livez") == "ok"
    go.touch()
    assert soon(lambda: not tasks_with(pod))
    give_room()
    assert soon(lambda: site.call("POST", MAPS, json.dumps(config("after")).encode())[0] in (201, 409))
    assert soon(lambda: site.client.get("Job", "meanwhile", "default")["status"].get("succeeded") == 1)
    assert site.lives()
    kept = {tree["metadata"]["name"] for tree in site.client.objects("ConfigMap", "default")}
    assert kept == stored | {"after"}
    os.kill(site.machine.pid, 9)
    assert soon(lambda: process_start(site.machine.pid) == 0)
    site.machine.up()
    assert {tree["metadata"]["name"] for tree in site.client.objects("ConfigMap", "default")} == kept


def test_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "32m"), machine_in(tmp_path / "disk") as machine:
        machine.up()
        site = Site(machine)
        filler = tmp_path / "disk" / "filler"
        survives_want_of_room(site, tmp_path / "go", lambda: use_up(filler), filler.unlink)
        site.client.close()


def test_a_file_that_may_not_grow(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    site = Site(machine)
    hard = resource.prlimit(machine.pid, resource.RLIMIT_FSIZE)[1]

    def bound(size: int) -> None:
        resource.prlimit(machine.pid, resource.RLIMIT_FSIZE, (size, hard))

    survives_want_of_room(site, tmp_path / "go", lambda: bound(4 * MEGABYTE), lambda: bound(hard))
    site.client.close()


def test_a_damaged_database_is_named_and_a_backup_brings_it_back(machine: Machine, tmp_path: Path) -> None:
    machine.up()
    site = Site(machine)
    for number in range(20):
        site.keep(f"map-{number}", 20_000)
    site.client.close()
    assert machine.run("backup", str(tmp_path / "backup")).returncode == 0
    machine.run("down")
    database = machine.data / "pykueue.db"
    with database.open("r+b") as file:
        # The first page stays whole, so that it still looks like a database.
        file.seek(4096)
        file.write(os.urandom(40_960))
    done = machine.run("up")
    assert done.returncode == 2, done.stderr
    assert f"{database}: is damaged" in done.stderr
    assert "pykueue restore" in done.stderr
    restored = machine.run("restore", str(tmp_path / "backup"))
    assert restored.returncode == 0, restored.stderr
    machine.up()
    assert len(machine.kubectl("get", "configmaps", "-o", "name").split()) >= 20


@pytest.mark.parametrize("used", [False, True], ids=["that is new", "that was used before"])
def test_a_disk_that_may_only_be_read(tmp_path: Path, used: bool) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "64m"), machine_in(disk) as machine:
        if used:
            machine.up()
            machine.run("down")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = machine.run("up", "--port", "0")
        assert done.returncode == 2
        assert str(machine.data) in done.stderr
        assert "Read-only file system" in done.stderr
        assert "--data" in done.stderr


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "32m"), machine_in(disk) as machine:
        use_up(disk / "filler")
        done = machine.run("up", "--port", "0")
        assert done.returncode == 2, done.stderr
        assert str(machine.data) in done.stderr
        assert "disk is not full" in done.stderr
        assert "Traceback" not in done.stderr
        (disk / "filler").unlink()
        machine.up()


def use_up(filler: Path) -> None:
    """Leave no room on a disk."""
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_port_that_somebody_took_meanwhile(machine: Machine) -> None:
    machine.up()
    port = json.loads((machine.data / "up.json").read_text())["port"]
    machine.run("down")
    with socket.create_server(("127.0.0.1", port)):
        done = machine.run("up", "--detach")
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; free the port or choose another" in done.stderr
    machine.up()


def test_a_process_that_ignores_the_signal_to_end(site: Site) -> None:
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    site.client.create(job("deaf", "sh", "-c", deaf))
    pod = site.await_pod("deaf")
    before = tasks_with(pod)
    assert before
    site.client.delete("Job", "deaf", "default")
    site.client.wait_gone("Pod", pod["metadata"]["name"], "default")
    assert not tasks_with(pod)


def tasks_with(pod: Tree) -> list[int]:
    """The processes of a pod."""
    mark = f"PYKUEUE_ATTEMPT={pod['metadata']['uid']}/".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a pod as another user, whom the limit binds")
@pytest.mark.skipif(not shutil.which("perl"), reason="the bomb is written in Perl, which never gives up")
def test_a_fork_bomb_of_a_user(site: Site) -> None:
    user = pwd.getpwuid(65534)
    home = Path(tempfile.mkdtemp(prefix="pykueue-faults-"))
    try:
        os.chown(home, user.pw_uid, user.pw_gid)
        done = site.machine.run("user", "add", user.pw_name, "--namespace", "bombs", "--out", str(home / "kubeconfig"))
        assert done.returncode == 0, done.stderr
        theirs = Client(site.reached.url, Server.of(str(home / "kubeconfig")).token, site.authority)
        before = tasks_of(user.pw_uid)
        # It waits where it cannot go on, or two hundred of them would have the machine to themselves.
        bomb = job("bomb", "perl", "-e", "while (1) { defined(fork) or select(undef, undef, undef, 0.5) }")
        bomb["metadata"]["namespace"] = "bombs"
        theirs.create(bomb)
        most = 0

        def held() -> bool:
            nonlocal most
            most = max(most, tasks_of(user.pw_uid) - before)
            return most >= pids_default() - 5

        assert soon(held)
        assert site.lives()
        held()
        assert most <= pids_default() + 1
        theirs.delete("Job", "bomb", "bombs")
        assert soon(lambda: tasks_of(user.pw_uid) <= before)
        theirs.close()
    finally:
        shutil.rmtree(home)


def test_much_output(site: Site) -> None:
    loud = 'while :; do head -c 2000000 /dev/zero | tr "\\0" "\\n" | sed "s/^/some words of output/"; sleep 0.1; done'
    site.client.create(job("loud", "sh", "-c", loud))
    pod = site.await_pod("loud")
    logs = site.machine.data / "pods" / pod["metadata"]["uid"] / "main" / "0"

    def files() -> list[Path]:
        return [file for file in logs.iterdir() if file.name != "record"]

    # So many files, full, are all that is kept.
    assert soon(lambda: len(files()) >= LOG_FILES_MAX)
    assert site.lives()
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):
            assert sum(file.stat().st_size for file in files()) <= LOG_FILES_MAX * LOG_BYTES_MAX * 1.05
    name = pod["metadata"]["name"]
    assert "some words of output" in site.client.text(f"/api/v1/namespaces/default/pods/{name}/log?tailLines=2")
    site.client.delete("Job", "loud", "default")
    site.client.wait_gone("Pod", name, "default")
    assert soon(lambda: not logs.exists())


def test_a_body_of_ten_megabytes(site: Site) -> None:
    body = json.dumps(config("big", "x" * 10_000_000)).encode()
    try:
        code, status = site.call("POST", MAPS, body)
    except (ConnectionError, ssl.SSLError):
        # We may be let go while we still send; what was said then is not always heard.
        code, status = 413, {"reason": "RequestEntityTooLarge"}
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
    assert site.lives()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", 400, id="nothing"),
        pytest.param(b"{", 400, id="half an object"),
        pytest.param(b"\xff\xfe\x00", 400, id="no text"),
        pytest.param(b"[" * 100_000, 400, id="brackets without end"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400, id="nested without end"),
        pytest.param(b"null", 422, id="null"),
        pytest.param(b"[]", 400, id="a list"),
        pytest.param(b'"text"', 400, id="text"),
        pytest.param(b'{"metadata": 5}', 400, id="a number for an object"),
        pytest.param(b'{"metadata": {"name": 5}}', 400, id="a number for a name"),
        pytest.param(b'{"metadata": {"name": "a"}, "data": {"a": 1e999}}', 400, id="a number beyond all"),
        pytest.param(b'{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}', 400, id="another kind"),
    ],
)
def test_a_body_that_is_none(site: Site, body: bytes, code: int) -> None:
    got, status = site.call("POST", MAPS, body)
    assert (got, status["kind"], status["status"]) == (code, "Status", "Failure")
    assert status["message"]
    assert site.client.text("/readyz") == "ok"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param("Bearer nonsense", id="one that nobody has"),
        pytest.param("Bearer ", id="none"),
        pytest.param("Bearer", id="not even a blank"),
        pytest.param("Basic YWRtaW46YWRtaW4=", id="a password"),
        pytest.param(f"Bearer {'a' * 7_000}", id="a long one"),
        pytest.param("Bearer \xe4\xf6\xfc", id="one in Latin letters"),
        pytest.param("Bearer ../../users.json", id="a path"),
        pytest.param("Bearer ' OR 1=1 --", id="a query"),
    ],
)
def test_a_token_that_is_none(site: Site, shown: str) -> None:
    code, status = site.call("GET", MAPS, Authorization=shown)
    assert (code, status["kind"]) in ((401, "Status"), (403, "Status"))
    assert "items" not in status
    if shown.startswith("Bearer "):
        near = site.reached.token[:-1] + ("a" if site.reached.token[-1] != "a" else "b")
        assert site.call("GET", MAPS, Authorization=f"Bearer {near}")[0] == 401


TRICKS = {
    "up": "../x",
    "up, escaped": "..%2fx",
    "up, all escaped": "%2e%2e%2fx",
    "up, escaped twice": "%252e%252e%252fx",
    "a dot": ".",
    "two dots": "..",
    "two dots, escaped": "%2e%2e",
    "nothing": "%00",
    "nothing within": "a%00b",
    "a backslash": "..%5cx",
    "no text": "%ff%fe",
    "a line": "a%0ab",
    "letters that look alike": "%D0%B0dmin",
    "a half of a letter": "%ed%a0%80",
    "a blank": "%20",
    "a percent sign alone": "%",
    "very long": "a" * 6_000,
    "an absolute path": "%2fetc%2fpasswd",
    "the database": "..%2f..%2fpykueue.db",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
@pytest.mark.parametrize("place", [f"{MAPS}/%s", "/api/v1/namespaces/%s/configmaps", f"{JOBS}/%s/status", "/%s"])
def test_a_name_in_a_path_that_is_none(site: Site, place: str, trick: str) -> None:
    code, status = said(site, place % trick)
    # What is escaped twice, and a namespace that is none, is merely not there.
    assert code in (200, 301, 400, 403, 404, 414), status
    if code == 200:
        assert status["kind"] == "ConfigMapList"
        assert status["items"] == []
    assert "root:" not in json.dumps(status)


def said(site: Site, target: str) -> tuple[int, Tree]:
    """The answer to a target that is sent as it is, without the client's own mending; text is wrapped."""
    with plugged(site) as client:
        lines = [f"GET {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {site.reached.token}", "", ""]
        client.sendall("\r\n".join(lines).encode())
        with contextlib.closing(http.client.HTTPResponse(client)) as answer:
            answer.begin()
            text = answer.read()
    try:
        return answer.status, json.loads(text)
    except ValueError:
        return answer.status, {"kind": "text", "text": text.decode(errors="replace")}


@contextlib.contextmanager
def plugged(site: Site) -> Iterator[ssl.SSLSocket]:
    """A connection on which a test writes what it likes."""
    with (
        socket.create_connection(site.address, timeout=30) as plain,
        site.client.tls.wrap_socket(plain, server_hostname=site.address[0]) as secured,
    ):
        yield secured


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tree: tree["metadata"].update(name="../x"), id="the name of a Job"),
        pytest.param(lambda tree: tree["metadata"].update(name="a\0b"), id="nothing in the name of a Job"),
        pytest.param(lambda tree: tree["metadata"].update(name="a" * 300), id="a long name"),
        pytest.param(lambda tree: tree["metadata"].update(name="ünïcode"), id="a name with dots above"),
        pytest.param(lambda tree: tree["metadata"].update(generateName="../x-", name=""), id="a generated name"),
        pytest.param(lambda tree: container(tree).update(name="../x"), id="the name of a container"),
        pytest.param(lambda tree: container(tree).update(name="."), id="a dot for a container"),
        pytest.param(lambda tree: mount(tree, subPath="../../x"), id="a part of a volume above it"),
        pytest.param(lambda tree: mount(tree, subPath="/etc"), id="a part of a volume that is an absolute path"),
        pytest.param(lambda tree: mount(tree, items=[{"key": "text", "path": "../x"}]), id="a file above a volume"),
        pytest.param(lambda tree: mount(tree, items=[{"key": "text", "path": "/x"}]), id="a file beside a volume"),
        pytest.param(lambda tree: mount(tree, name="../x"), id="the name of a volume"),
    ],
)
def test_a_name_in_a_job_that_leads_elsewhere(site: Site, change: Callable[[Tree], None]) -> None:
    tree = job("tricky", "true")
    change(tree)
    code, status = site.call("POST", JOBS, json.dumps(tree).encode())
    assert (code, status["reason"]) == (422, "Invalid"), status


def container(tree: Tree) -> Tree:
    found: Tree = tree["spec"]["template"]["spec"]["containers"][0]
    return found


def mount(tree: Tree, name: str = "files", subPath: str = "", items: list[Tree] | None = None) -> None:
    """Give a Job a volume of a ConfigMap."""
    source = {"name": "tricks", **({"items": items} if items else {})}
    tree["spec"]["template"]["spec"]["volumes"] = [{"name": name, "configMap": source}]
    mounted = {"name": name, "mountPath": "/tmp/files", **({"subPath": subPath} if subPath else {})}
    container(tree)["volumeMounts"] = [mounted]


@pytest.mark.parametrize("key", ["../x", "..", "a/b", "a\0b", ""])
def test_a_key_that_would_be_a_file_elsewhere(site: Site, key: str) -> None:
    tree = {**config("tricks"), "data": {key: "x"}}
    code, status = site.call("POST", MAPS, json.dumps(tree).encode())
    assert (code, status["reason"]) == (422, "Invalid")


def test_a_log_of_a_container_that_is_a_path(site: Site) -> None:
    site.client.create(job("plain", "true"))
    assert soon(lambda: len(site.pods("plain")) == 1)
    name = site.pods("plain")[0]["metadata"]["name"]
    for trick in ("..", "../../x", "%2e%2e", "main%00", "main/../main"):
        code, status = said(site, f"/api/v1/namespaces/default/pods/{name}/log?container={trick}")
        assert (code, status["kind"]) == (400, "Status")


def test_clients_that_say_nothing(site: Site) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(150):
            held.enter_context(socket.create_connection(site.address, timeout=30))
        for _ in range(50):
            held.enter_context(plugged(site)).sendall(b"GET /api HTTP/1.1\r\nHost: ")
        assert site.lives()


def test_more_connections_than_it_may_have_files(machine: Machine) -> None:
    machine.up()
    site = Site(machine)
    soft, hard = resource.prlimit(machine.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, (100, hard))
    with contextlib.ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(site.address, timeout=30))
        # They are all open now; that it lives shows when they are gone.
        assert not soon_ready(site)
    resource.prlimit(machine.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert soon(lambda: soon_ready(site))
    assert site.lives()
    site.client.close()


def soon_ready(site: Site) -> bool:
    """Whether it answers within a second or two."""
    connection = http.client.HTTPSConnection(*site.address, context=site.client.tls, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_watches_that_nobody_reads(site: Site) -> None:
    watch = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.reached.token}\r\n\r\n".encode()
    site.client.create(config("busy"))
    with contextlib.ExitStack() as held:
        for _ in range(5):
            held.enter_context(plugged(site)).sendall(watch)
        before = resident(site.machine.pid)
        for number in range(60):
            site.client.patch("ConfigMap", "busy", {"data": {"text": str(number) + "x" * 500_000}}, "default")
        # What was written is thirty megabytes, for each of five.
        assert resident(site.machine.pid) - before < 100 * MEGABYTE
        assert site.lives()


def resident(pid: int) -> int:
    """How much memory a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
