"""Does the output of a command reach the one who ran it, whole? Real servers, processes and connections."""

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from aiohttp import web

from pykueue.base.clock import SystemClock
from pykueue.cli.follow.output import Output
from pykueue.kube.client.http import HttpKube
from tests.cli.machine import Machine, machine_in
from tests.fakes.tinyapi import TinyApi
from tests.patience import soon, soon_async

WINDOW = 5 * (10 << 20)
"""How much output the log of a container keeps."""
SLACK = 5 * (1 << 18) + (1 << 20)
"""How much larger its files may be."""
LONG = 120.0
HASTE = 3.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server that tests share which leave it as it is."""
    with machine_in(tmp_path_factory.mktemp("running")) as made:
        made.up()
        yield made


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as made:
        made.up()
        yield made


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Machine]:
    """A server whose jobs wait for no more than a few seconds for their `run` to connect again."""
    with machine_in(tmp_path) as made:
        program = (
            "from pykueue.node.supervision import followers\n"
            f"followers.GRACE_SECONDS = {HASTE}\n"
            "from pykueue.cli.main import cli\n"
            "cli()"
        )
        words = made.command("up", "--port", "0", "--cpus", "4", "--gpus", "0", "--example")
        command = [words[0], "-c", program, *words[3:]]
        with subprocess.Popen(command, env=made.environment, stdout=subprocess.DEVNULL) as server:
            try:
                assert soon((made.data / "up.json").exists, LONG)
                assert soon(lambda: Api(made).ready(), LONG)
                yield made
            finally:
                server.terminate()


class Run:
    """A command of ours whose output is read as bytes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self.process = process
        self.out: IO[bytes] = process.stdout

    def rest(self, first: bytes = b"") -> tuple[int, str]:
        """The length and the hash of all that it printed, of which this was read already."""
        return digest(self.out, first)

    def end(self) -> tuple[int, str]:
        """Its exit code when its output was read, and what it said beside that."""
        assert self.process.stderr is not None
        said = self.process.stderr.read().decode()
        return self.process.wait(LONG), said


@contextlib.contextmanager
def begun(machine: Machine, *words: str) -> Iterator[Run]:
    """A `pykueue run` in the first queue; at the end it is gone."""
    command = machine.command("run", "-q", "team-a", *words)
    with subprocess.Popen(command, env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield Run(process)
        finally:
            process.kill()


def numbers(last: int) -> tuple[int, str]:
    """How long the output of `seq 1 LAST` is, and its hash."""
    with subprocess.Popen(["seq", "1", str(last)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return digest(process.stdout)


def digest(file: IO[bytes], first: bytes = b"") -> tuple[int, str]:
    """The length and the hash of all that comes, after what came first."""
    size, made = len(first), hashlib.sha256(first)
    while block := file.read1(1 << 16):  # type: ignore[attr-defined]  # a pipe is buffered
        size += len(block)
        made.update(block)
    return size, made.hexdigest()


def test_nothing_that_was_printed_before_ctrl_c_is_lost(running: Machine, tmp_path: Path) -> None:
    script = f"seq 1 40000; touch {tmp_path}/done; exec sleep 600"
    with begun(running, "--", "sh", "-c", script) as run:
        # The pipe to us is full long before, and the rest waits behind it.
        assert soon((tmp_path / "done").exists)
        assert soon(lambda: select.select([run.out], [], [], 0)[0])
        run.process.send_signal(signal.SIGINT)
        assert run.rest() == numbers(40000)
        code, said = run.end()
    assert code == 130, said
    assert "deleted" in said


@pytest.mark.parametrize("both", [False, True])
def test_a_run_whose_reader_is_gone_ends_and_its_job_continues(running: Machine, both: bool) -> None:
    name = f"unread-{both}".lower()
    script = "echo one; while :; do sleep 0.1; echo more; done"
    command = running.command("run", "-q", "team-a", "--name", name, "--", "sh", "-c", script)
    errors = subprocess.STDOUT if both else subprocess.PIPE
    with subprocess.Popen(command, env=running.environment, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        while process.stdout.readline() != b"one\n":
            pass
        process.stdout.close()
        said = b"" if process.stderr is None else process.stderr.read()
        assert process.wait(LONG) == 141
    if not both:
        assert f"the reader of the output exited: job default/{name} continues; to follow it again:" in said.decode()
    following = subprocess.Popen(
        running.command("logs", "-f", name), env=running.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with following as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        assert (process.wait(LONG), process.stderr and process.stderr.read()) == (141, b"")
    assert running.run("cancel", name).returncode == 0


def kept(machine: Machine) -> int:
    """The bytes of output that the server keeps."""
    total = 0
    for file in (machine.data / "pods").rglob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def settled(machine: Machine) -> int:
    """The bytes of output that the server keeps, once that has not changed for a while."""
    size = -1
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        before, size = size, kept(machine)
        if size == before and size > WINDOW / 2:
            return size
        time.sleep(1)
    raise AssertionError(f"the log never came to rest; it has {size} bytes")


class Api:
    """Requests to a server as its administrator, over TLS."""

    def __init__(self, machine: Machine) -> None:
        config: Any = yaml.safe_load((machine.data / "kubeconfig").read_text())
        self.server = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        self.token = config["users"][0]["user"]["token"]

    @contextlib.contextmanager
    def open(self, path: str, verb: str = "GET") -> Iterator[http.client.HTTPResponse]:
        """The answer to a request, of which nothing was read yet."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.server, context=context, timeout=LONG)
        try:
            connection.request(verb, path, headers={"Authorization": f"Bearer {self.token}"})
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def ask(self, path: str, verb: str = "GET") -> tuple[int, bytes]:
        """The code and the body of the answer to a request."""
        with self.open(path, verb) as answer:
            return answer.status, answer.read()

    def ready(self) -> bool:
        try:
            return self.ask("/readyz")[0] == 200
        except OSError:
            return False

    def pod(self, job: str) -> str:
        """The path of the one pod of a Job, once it is there."""
        names: list[str] = []

        def found() -> bool:
            path = f"/api/v1/namespaces/default/pods?labelSelector=job-name%3D{job}"
            listed = json.loads(self.ask(path)[1])["items"]
            names[:] = [one["metadata"]["name"] for one in listed if one["status"].get("phase") != "Pending"]
            return bool(names)

        assert soon(found, LONG)
        return f"/api/v1/namespaces/default/pods/{names[0]}"

    def ended(self, job: str) -> bool:
        tree = json.loads(self.ask(f"/apis/batch/v1/namespaces/default/jobs/{job}")[1])
        return any(
            one["status"] == "True" and one["type"] == "Complete" for one in tree["status"].get("conditions", ())
        )


def test_a_followed_run_loses_no_byte(running: Machine) -> None:
    with begun(running, "--", "seq", "1", "4000000") as run:
        assert run.rest() == numbers(4_000_000)
        assert run.end()[0] == 0


def test_two_hundred_megabytes_come_whole_and_the_log_stays_within_its_bounds(running: Machine) -> None:
    largest, over = 0, threading.Event()

    def measure() -> None:
        nonlocal largest
        while not over.wait(0.2):
            largest = max(largest, kept(running))

    before = kept(running)
    beside = threading.Thread(target=measure)
    beside.start()
    try:
        with begun(running, "--", "seq", "1", "24000000") as run:
            size, found = run.rest()
            assert run.end()[0] == 0
    finally:
        over.set()
        beside.join()
    assert size > 200_000_000
    assert (size, found) == numbers(24_000_000)
    assert largest - before <= WINDOW + SLACK


def test_binary_output_and_lines_without_end_come_byte_for_byte(running: Machine) -> None:
    script = "import os\nfor size in (1, 70000, 3, 400000): os.write(1, bytes(i * i % 256 for i in range(size)))"
    wanted = b"".join(bytes(i * i % 256 for i in range(size)) for size in (1, 70000, 3, 400000))
    with begun(running, "--", "python3", "-c", script) as run:
        assert run.out.read() == wanted


def test_stderr_stays_apart_and_each_stream_in_order(running: Machine) -> None:
    script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done; printf end"
    done = running.run("run", "-q", "team-a", "--name", "apart", "--", "sh", "-c", script)
    assert done.stdout == "".join(f"out {i}\n" for i in range(1, 6)) + "end"
    said = [line for line in done.stderr.splitlines() if not line.startswith("pykueue: ")]
    assert said == [f"err {i}" for i in range(1, 6)]
    both = running.kubectl("logs", "job/apart")
    assert sorted(both.splitlines()) == sorted([*said, *done.stdout.splitlines()]), "kubectl shows both streams"


def test_lines_of_the_two_streams_do_not_cut_each_other_up(running: Machine) -> None:
    script = "seq 1 20000 & seq 100001 120000 >&2; wait"
    done = running.run("run", "-q", "team-a", "--name", "mixed", "--", "sh", "-c", script)
    assert done.returncode == 0
    lines = running.kubectl("logs", "job/mixed").splitlines()
    assert sorted(map(int, lines)) == [*range(1, 20001), *range(100001, 120001)]


def test_a_slow_reader_makes_the_command_wait_and_loses_nothing(machine: Machine) -> None:
    with begun(machine, "--name", "slow", "--", "seq", "1", "13000000") as run:
        first = run.out.read(1000)
        assert settled(machine) <= WINDOW + SLACK
        assert not Api(machine).ended("slow"), "it waits until somebody reads"
        while len(first) < 3_000_000:
            first += run.out.read(1 << 18)
            time.sleep(0.2)
        assert run.rest(first) == numbers(13_000_000)
        assert run.end()[0] == 0


@pytest.mark.slow("waits for the grace period")
def test_a_run_that_is_killed_makes_the_command_wait_no_longer_than_the_grace(hasty: Machine) -> None:
    with begun(hasty, "--name", "killed", "--", "seq", "1", "13000000") as run:
        run.out.read(1000)
        settled(hasty)
        time.sleep(2 * HASTE)
        assert not Api(hasty).ended("killed"), "while its reader is connected it waits for longer than that"
        run.process.kill()
        assert soon(lambda: Api(hasty).ended("killed"), LONG)


@pytest.mark.slow("waits for the grace period")
def test_a_run_that_is_paused_for_longer_than_the_grace_loses_nothing(hasty: Machine) -> None:
    with begun(hasty, "--", "seq", "1", "13000000") as run:
        first = run.out.read(1000)
        run.process.send_signal(signal.SIGSTOP)
        settled(hasty)
        time.sleep(2 * HASTE)
        run.process.send_signal(signal.SIGCONT)
        assert run.rest(first) == numbers(13_000_000)
        assert run.end()[0] == 0


class Cutter:
    """Passes connections on to a server, and cuts each after so many bytes."""

    def __init__(self, port: int, after: int) -> None:
        self.target = port
        self.after = after
        self.cuts = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.listening.accept()
                threading.Thread(target=self.carry, args=(here,), daemon=True).start()

    def carry(self, here: socket.socket) -> None:
        passed = 0
        with here, socket.create_connection(("127.0.0.1", self.target)) as there, contextlib.suppress(OSError):
            while True:
                for one in select.select((here, there), (), ())[0]:
                    block = one.recv(1 << 16)
                    (there if one is here else here).sendall(block)
                    passed += len(block)
                    if not block:
                        return
                if passed > self.after:
                    self.cuts += 1
                    return


def test_a_connection_that_breaks_loses_and_repeats_nothing(running: Machine, tmp_path: Path) -> None:
    config: Any = yaml.safe_load((running.data / "kubeconfig").read_text())
    cluster = config["clusters"][0]["cluster"]
    cutter = Cutter(int(cluster["server"].rpartition(":")[2]), after=3_400_000)
    cluster["server"] = f"https://127.0.0.1:{cutter.port}"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    with begun(running, "--kubeconfig", str(file), "--", "seq", "1", "4000000") as run:
        assert run.rest() == numbers(4_000_000)
        assert run.end()[0] == 0
    assert cutter.cuts >= 5
    cutter.listening.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_server_that_restarts_loses_nothing(machine: Machine, how: signal.Signals) -> None:
    with begun(machine, "--", "seq", "1", "13000000") as run:
        first = run.out.read(5_000_000)
        pid = machine.pid
        os.kill(pid, how)
        assert soon(lambda: not Path(f"/proc/{pid}/exe").exists(), LONG)
        machine.up()
        assert run.rest(first) == numbers(13_000_000)
        assert run.end()[0] == 0


def test_a_detached_run_waits_for_no_reader_and_its_log_says_what_was_dropped(running: Machine) -> None:
    running.run("run", "-q", "team-a", "--name", "detached", "--detach", "--", "seq", "1", "13000000")
    api = Api(running)
    pod = api.pod("detached")
    with api.open(f"{pod}/log?follow=true"):
        assert soon(lambda: api.ended("detached"), LONG), "an unread log does not stop it"
    line, _, rest = api.ask(f"{pod}/log")[1].partition(b"\n")
    assert line.endswith(b" bytes of output are lost here: log rotation removed them]")
    assert int(line.split()[0][1:]) + len(rest) == numbers(13_000_000)[0]
    assert rest.endswith(b"12999999\n13000000\n")


def test_a_log_that_nobody_reads_does_not_stop_a_followed_run(running: Machine) -> None:
    with begun(running, "--name", "unread", "--", "seq", "1", "13000000") as run:
        first = run.out.read(1000)
        api = Api(running)
        with api.open(f"{api.pod('unread')}/log?follow=true"):
            assert run.rest(first) == numbers(13_000_000)
            assert run.end()[0] == 0


def test_a_reader_that_did_not_start_the_job_cannot_make_it_wait(machine: Machine) -> None:
    with begun(machine, "--name", "mine", "--", "sh", "-c", "echo up; sleep 60") as run:
        assert run.out.readline() == b"up\n"
        api = Api(machine)
        pod = api.pod("mine")
        code, said = api.ask(f"{pod}/log?pykueueHold=true&pykueueSecret=guessed")
        assert code == 403
        assert b"its output does not wait for this reader" in said
        (follower,) = (machine.data / "pods").rglob("follower")
        before = follower.read_text().split()[1]
        with api.open(f"{pod}/log?pykueuePosition=0&pykueueSecret=guessed") as answer:
            assert answer.status == 200
        assert api.ask(f"{pod}/log?pykueuePosition=7&pykueueSecret=guessed")[0] == 200
        assert follower.read_text().split()[1] == before
        run.process.send_signal(signal.SIGINT)
        assert run.end()[0] == 130


def test_the_last_words_of_a_pod_that_is_deleted_are_shown(running: Machine) -> None:
    script = "trap 'seq 1 300000; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    with begun(running, "--name", "deleted", "--", "sh", "-c", script) as run:
        assert run.out.readline() == b"up\n"
        api = Api(running)
        api.ask(api.pod("deleted"), "DELETE")
        assert run.rest() == numbers(300_000)


def test_a_run_that_is_evicted_and_comes_back_shows_the_output_of_both_its_pods(
    running: Machine, tmp_path: Path
) -> None:
    script = (
        f"[ -e {tmp_path}/back ] && seq 1 3000000 && exit 6; touch {tmp_path}/back; "
        "trap 'seq 1 300000; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    )
    with begun(running, "--name", "evicted", "--", "sh", "-c", script) as run:
        assert run.out.readline() == b"up\n"
        workload = running.kubectl("get", "workloads", "-o", "name").splitlines()
        (mine,) = [one for one in workload if "job-evicted-" in one]
        running.kubectl("patch", mine, "--type=merge", "-p", '{"spec":{"active":false}}')
        first = subprocess.run(["seq", "1", "300000"], capture_output=True, check=True).stdout
        assert run.out.read(len(first)) == first
        running.kubectl("patch", mine, "--type=merge", "-p", '{"spec":{"active":true}}')
        assert run.rest() == numbers(3_000_000)
        assert run.end()[0] == 6


def test_output_goes_whole_to_a_file(running: Machine, tmp_path: Path) -> None:
    file = tmp_path / "result"
    file.write_text("what was there before, which is replaced" * 100)
    script = "echo beside >&2; seq 1 3000000"
    done = running.run("run", "-q", "team-a", "--output", str(file), "--", "sh", "-c", script, timeout=LONG)
    assert (done.returncode, done.stdout) == (0, "")
    assert "\nbeside\n" in done.stderr
    with file.open("rb") as written:
        assert digest(written) == numbers(3_000_000)


def test_a_file_that_cannot_be_written_is_said_before_anything_is_submitted(running: Machine, tmp_path: Path) -> None:
    done = running.run("run", "-q", "team-a", "--output", str(tmp_path), "--", "true")
    assert (done.returncode, done.stderr.count("submitted to queue")) == (2, 0)
    assert f"--output: {tmp_path}: Is a directory" in done.stderr


def test_a_job_writes_its_file_itself_where_nobody_follows_it(running: Machine, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/sh\n#SBATCH -J sum -o {tmp_path}/%x.%j-%a\necho $PYKUEUE_ARRAY_TASK_ID; echo bad >&2; exit 3\n"
    )
    done = running.run("run", "-q", "team-a", "--name", "many", "--array", "4,6", "--detach", str(script))
    assert done.returncode == 0, done.stderr
    assert running.run("wait", "many").returncode == 3
    files = {one.name: one.read_text() for one in tmp_path.iterdir() if one != script}
    assert files == {"many.many-4": "4\nbad\n", "many.many-6": "6\nbad\n"}


def test_output_that_cannot_be_written_is_no_success(running: Machine) -> None:
    done = running.run("run", "-q", "team-a", "--output", "/dev/full", "--", "echo", "hello")
    assert done.returncode == 1
    assert "cannot write the output: No space left on device" in done.stderr


def test_a_reader_that_goes_away_does_not_stop_the_command(running: Machine) -> None:
    with begun(running, "--name", "left", "--", "sh", "-c", "seq 1 1000000; exit 5") as run:
        run.out.read(10)
        run.out.close()
        assert run.end()[0] == 141
    assert running.run("wait", "left").returncode == 5


async def test_a_server_without_positions_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    whole = b"".join(b"%d\n" % number for number in range(200_000))
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        response = web.StreamResponse()
        await response.prepare(request)
        if "pykueueHold" in request.query:
            await response.write(whole[:1])
            return response
        follows = [one for one in asked if "follow" in one]
        for at in range(0, len(whole), 50_000):
            await response.write(whole[at : at + 50_000])
            if len(follows) < 3 and at >= 300_000 * len(follows):
                # A connection that breaks: the next answer begins at the beginning.
                assert request.transport is not None
                request.transport.abort()
                break
        return response

    async with TinyApi().serve() as api:
        api.accident = answer
        kube = HttpKube(api.connection(), SystemClock())
        with (tmp_path / "output").open("wb") as file:
            output = Output(kube, SystemClock(), "default", file.fileno())
            job: Any = output.announced({"spec": {"template": {"spec": {}}}})
            marks = job["spec"]["template"]["metadata"]["annotations"]
            pod: Any = {
                "metadata": {"name": "p", "uid": "u", "annotations": marks},
                "spec": {"containers": [{"name": "proxy"}, {"name": "main"}]},
            }
            output.hold(pod)
            problem = await output.show(pod)
            await output.close()
        await kube.close()
    assert [problem, *output.problems()] == [""]
    assert (tmp_path / "output").read_bytes() == whole
    assert len([one for one in asked if "follow" in one]) == 3
    assert all(one["container"] == "main" for one in asked)


async def test_of_a_server_without_positions_the_rest_is_read_again_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "output"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if "follow" in request.query:
            await response.write(b"one\n")
            await asyncio.sleep(LONG)
        else:
            await response.write(b"one\ntwo\n")
        return response

    async with TinyApi().serve() as api:
        api.accident = answer
        kube = HttpKube(api.connection(), SystemClock())
        with file.open("wb") as opened:
            output = Output(kube, SystemClock(), "default", opened.fileno())
            pod: Any = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "main"}]}}
            showing = asyncio.create_task(output.show(pod))
            assert await soon_async(lambda: file.read_bytes() == b"one\n")
            output.ending.set()
            assert await showing == ""
        await kube.close()
    assert file.read_bytes() == b"one\ntwo\n"
