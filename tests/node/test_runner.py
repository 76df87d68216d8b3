"""Does a pod run as a kubelet would run it, with real processes?"""

import asyncio
import os
import pwd
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.api.trees import text
from pykueue.kube.port import PODS, KubeError
from pykueue.node import attempts
from pykueue.node.podplan import FIRST_SECONDS
from pykueue.node.setup.accounts import Account
from pykueue.node.spawn import SpawnError
from pykueue.node.supervision.processes import process_start
from tests.node.podhost import host, shell

NOBODY = 65534
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
SIDE = "echo side >> work/log; trap 'echo bye >> work/log; exit 0' TERM; while :; do sleep 0.05; done"


def terminated(state: Any) -> tuple[int, str]:
    return state["terminated"]["exitCode"], state["terminated"]["reason"]


async def test_a_pod_from_start_to_end(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("echo out; echo err >&2; sleep 0.2; exit 3"))
        running = await on.phase("p", "Running")
        assert running["containerStatuses"][0]["ready"] is True
        assert {one["type"]: one["status"] for one in running["conditions"]}["Ready"] == "True"
        await on.phase("p", "Failed")
        assert terminated(on.state("p")) == (3, "Error")
        assert await on.printed("p") == "out\nerr\n"
        assert on.reasons() == ["Created", "Started"]
        assert on.patches("p") <= 3, "perhaps waiting, running, and ended"
        assert on.runner.sandboxes == {}


async def test_a_short_pod_takes_few_writes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = await on.pod("p", shell("exit 0"))
        await on.phase("p", "Succeeded")
        assert terminated(on.state("p")) == (0, "Completed")
        # Once as a rule; on a machine that is too busy for that, it is seen to run first.
        assert on.patches("p") in (1, 2)
        await on.until(lambda: not (on.runner.folder / uid).exists())
        assert not list(on.runner.builder.scratch.iterdir())


async def test_what_a_pod_left_is_kept_until_it_is_deleted(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = await on.pod("p", shell("echo kept > result; echo said"))
        await on.phase("p", "Succeeded")
        assert (on.runner.builder.scratch / uid / "main" / "result").read_text() == "kept\n"
        await on.api.delete(PODS, "p", "default")
        await on.until(lambda: not (on.runner.builder.scratch / uid).exists())
        await on.until(lambda: not (on.runner.folder / uid).exists())


async def test_environment_arguments_and_volumes(tmp_path: Path) -> None:
    variables = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "BOTH", "value": "$(NAME)-$(RATE)"},
    ]
    script = 'echo "$BOTH $TOKEN $HOSTNAME $0 $1"; cat etc/app/rate; echo; cat "$PYKUEUE_VOLUME_CONF/rate"; echo; pwd'
    container = {
        **shell(script),
        "args": ["zero", "$(RATE)"],
        "env": variables,
        "volumeMounts": [{"name": "conf", "mountPath": "/etc/app"}],
    }
    async with host(tmp_path) as on:
        await on.hold("ConfigMap", "settings", {"rate": "0.5"})
        await on.hold("Secret", "keys", {"token": "aHVzaA=="})
        uid = await on.pod("p", container, volumes=[{"name": "conf", "configMap": {"name": "settings"}}])
        await on.phase("p", "Succeeded")
        folder = on.runner.builder.scratch / uid / "main"
        assert (await on.printed("p")).splitlines() == ["p-0.5 hush p zero 0.5", "0.5", "0.5", str(folder)]


async def test_nothing_of_our_own_environment_is_passed_on_but_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "hush")
    async with host(tmp_path) as on:
        await on.pod("p", {"name": "main", "command": ["env"]})
        await on.phase("p", "Succeeded")
        found = dict(line.partition("=")[::2] for line in (await on.printed("p")).splitlines())
        own = Account.of_this_process()
        assert "SECRET_OF_THE_SERVER" not in found
        assert (found["PATH"], found["HOME"], found["USER"]) == (os.environ["PATH"], own.home, own.name)
        assert "CUDA_VISIBLE_DEVICES" not in found


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        pytest.param({"name": "main", "image": "x"}, "CreateContainerError", "no command specified", id="no command"),
        pytest.param(
            shell("true", env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]),
            "CreateContainerConfigError",
            'configmap "none" not found',
            id="no ConfigMap",
        ),
        pytest.param({"name": "main", "command": ["a\0b"]}, "CreateContainerError", "a NUL byte", id="a NUL byte"),
        pytest.param(
            {"name": "main", "command": ["$(A)"] * 100, "env": [{"name": "A", "value": "x" * 100_000}]},
            "CreateContainerConfigError",
            "longer than 6 MiB after expansion",
            id="long arguments",
        ),
    ],
)
async def test_a_container_that_cannot_be_made_waits(
    tmp_path: Path, container: dict[str, Any], reason: str, message: str
) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", container)
        await on.until(lambda: on.state("p").get("waiting", {}).get("reason") == reason)
        assert message in on.state("p")["waiting"]["message"]
        assert on.status("p")["phase"] == "Pending"
        assert on.said[-1].reason == "Failed"
        assert on.said[-1].warning
        assert on.said[-1].note.startswith("Error: ")


async def test_a_volume_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("true"), volumes=[{"name": "v", "nfs": {"server": "s"}}])
        await on.until(lambda: "FailedMount" in on.reasons())
        assert on.said[0].note.startswith('MountVolume.SetUp failed for volume "v" : local pods do not support volumes')
        await on.pod("q", shell("cat v/k"), volumes=[{"name": "v", "configMap": {"name": "late"}}])
        await on.until(lambda: [one for one in on.said if "late" in one.note])
        await on.hold("ConfigMap", "late", {"k": "v"})
        await on.phase("q", "Failed")


async def test_a_command_that_does_not_exist_fails_the_pod(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", {"name": "main", "command": ["nonesuch"]})
        await on.phase("p", "Failed")
        assert terminated(on.state("p")) == (128, "StartError")
        assert 'exec: "nonesuch": executable file not found in $PATH' in on.state("p")["terminated"]["message"]
        assert on.reasons() == ["Failed"]


async def test_the_last_words_of_a_container_that_failed(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        asks: dict[str, Any] = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await on.pod("p", shell("seq 200; echo no memory; exit 1", **asks))
        await on.pod("q", shell("echo fine", **asks))
        await on.phase("p", "Failed")
        await on.phase("q", "Succeeded")
        words = on.state("p")["terminated"]["message"].splitlines()
        assert (len(words), words[0], words[-1]) == (80, "122", "no memory")
        assert "message" not in on.state("q")["terminated"]


async def test_init_containers_and_sidecars(tmp_path: Path) -> None:
    share = [{"name": "work", "mountPath": "/work"}]
    inits = [
        shell("echo one >> work/log", "first", volumeMounts=share),
        {
            **shell(SIDE, "side"),
            "restartPolicy": "Always",
            "volumeMounts": share,
            "startupProbe": {"exec": {"command": ["grep", "side", "work/log"]}, "periodSeconds": 1},
        },
        shell("echo two >> work/log", "second", volumeMounts=share),
    ]
    async with host(tmp_path) as on:
        uid = await on.pod(
            "p",
            shell("echo main >> work/log", volumeMounts=share),
            initContainers=inits,
            volumes=[{"name": "work", "emptyDir": {}}],
        )
        await on.phase("p", "Succeeded")
        log = on.runner.builder.scratch / uid / ".volumes" / "work" / "log"
        assert log.read_text().split() == ["one", "side", "two", "main", "bye"]
        states = {one["name"]: one["state"] for one in on.status("p")["initContainerStatuses"]}
        assert terminated(states["side"]) == (0, "Completed")


async def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell(f"touch {tmp_path}/ran"), initContainers=[shell("exit 2", "first")])
        await on.phase("p", "Failed")
        assert terminated(on.state("p", "first")) == (2, "Error")
        assert on.state("p") == {"waiting": {"reason": "PodInitializing"}}
        assert not (tmp_path / "ran").exists()


async def test_a_container_that_fails_again_is_held_back(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = await on.pod("p", shell("echo again; exit 1"), restart="OnFailure")
        await on.until(lambda: on.state("p").get("waiting", {}).get("reason") == "CrashLoopBackOff")
        status = on.status("p")["containerStatuses"][0]
        assert status["restartCount"] == 1
        assert terminated(status["lastState"]) == (1, "Error")
        assert status["state"]["waiting"]["message"] == (
            f"back-off {FIRST_SECONDS}s restarting failed container=main pod=p_default({uid})"
        )
        assert on.status("p")["phase"] == "Running"
        assert on.said[-1].reason == "BackOff"
        assert on.said[-1].note == f"Back-off restarting failed container main in pod p_default({uid})"
        assert await on.printed("p", previous=True) == "again\n"


async def test_a_container_is_restarted_until_it_succeeds(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("[ -e mark ] && exit 0; touch mark; exit 1"), restart="OnFailure")
        status = await on.phase("p", "Succeeded")
        assert status["containerStatuses"][0]["restartCount"] == 1


async def test_a_deleted_pod_ends_gently_and_is_removed(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("trap 'echo bye; exit 7' TERM; while :; do sleep 0.02; done"))
        await on.phase("p", "Running")
        await on.api.delete(PODS, "p", "default")
        changes = on.api.registry.store.changes
        deleted = await on.until(lambda: [one for one in changes("pods", after=0) if one.how == "DELETED"])
        status = msgspec.json.decode(deleted[0].body)["status"]
        assert status["phase"] == "Failed"
        assert terminated(status["containerStatuses"][0]["state"]) == (7, "Error")
        assert on.said[-1].note == "Stopping container main"
        await on.until(lambda: not attempts.pods(on.runner.folder))


async def test_what_ignores_the_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("trap '' TERM; echo $$$$; while :; do sleep 0.02; done"))
        await on.phase("p", "Running")
        pid = int(await on.printed("p"))
        await on.api.delete(PODS, "p", "default", grace=1)
        await on.until(lambda: on.stored("p") is None)
        assert not process_start(pid)


async def test_a_pod_that_is_deleted_by_force_is_killed(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("trap '' TERM; echo $$$$; while :; do sleep 0.02; done"))
        await on.phase("p", "Running")
        pid = int(await on.printed("p"))
        await on.api.delete(PODS, "p", "default", grace=0)
        await on.until(lambda: not process_start(pid))
        await on.until(lambda: not attempts.pods(on.runner.folder))
        # The name is free for another pod at once.
        await on.pod("p", shell("exit 0"))
        await on.phase("p", "Succeeded")


async def test_the_hook_before_the_end(tmp_path: Path) -> None:
    hooked = shell(
        "exec 2>&1; trap 'cat mark; exit 0' TERM; while :; do sleep 0.02; done",
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "sleep 0.2; echo first > mark"]}}},
    )
    async with host(tmp_path) as on:
        await on.pod("p", hooked)
        await on.phase("p", "Running")
        pod = on.stored("p")
        follow = asyncio.create_task(on.printed("p", follow=True))
        await asyncio.sleep(0.01)
        await on.api.delete(PODS, "p", "default")
        assert (await follow).endswith("first\n"), pod
        await on.until(lambda: on.stored("p") is None)


async def test_a_hook_at_the_start_that_fails_ends_the_container(tmp_path: Path) -> None:
    hooked = shell("sleep 1000", lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}})
    async with host(tmp_path) as on:
        await on.pod("p", hooked)
        await on.phase("p", "Failed")
        assert "FailedPostStartHook" in on.reasons()
        assert terminated(on.state("p"))[0] == 143


async def test_a_pod_that_is_active_for_too_long(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("sleep 1000"), activeDeadlineSeconds=1)
        status = await on.phase("p", "Failed")
        assert status["reason"] == "DeadlineExceeded"
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        assert terminated(on.state("p"))[0] == 143


async def test_readiness_and_liveness(tmp_path: Path) -> None:
    probes: dict[str, Any] = {
        "readinessProbe": {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "dead"]}, "periodSeconds": 1, "failureThreshold": 1},
    }
    async with host(tmp_path) as on:
        uid = await on.pod("p", shell("sleep 1000", **probes), restart="Never")
        status = await on.phase("p", "Running")
        assert status["containerStatuses"][0]["ready"] is False
        await on.until(lambda: "Unhealthy" in on.reasons())
        folder = on.runner.builder.scratch / uid / "main"
        (folder / "ready").touch()
        await on.until(lambda: on.status("p")["containerStatuses"][0]["ready"])
        (folder / "dead").touch()
        await on.phase("p", "Failed")
        notes = [one.note for one in on.said]
        assert "Container main failed liveness probe, will be restarted" in notes
        assert any(note.startswith("Liveness probe failed:") for note in notes)


async def test_a_manifest_cannot_choose_its_gpus(tmp_path: Path) -> None:
    more: dict[str, Any] = {"env": [{"name": name, "value": "1"} for name in GPU_VARIABLES]}
    asks = {**more, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    script = 'echo "[$CUDA_VISIBLE_DEVICES] [$NVIDIA_VISIBLE_DEVICES] $0"'
    async with host(tmp_path, gpus=2) as on:
        await on.pod("one", {**shell(script, **asks), "args": ["$(CUDA_VISIBLE_DEVICES)"]})
        await on.phase("one", "Succeeded")
        assert await on.printed("one") == "[0] [0] 0\n"
        await on.pod("none", shell(script, **more))
        await on.phase("none", "Succeeded")
        assert await on.printed("none") == "[] [void] sh\n"


async def test_gpus_are_had_one_after_the_other(tmp_path: Path) -> None:
    asks: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    script = 'echo "[$CUDA_VISIBLE_DEVICES]"; [ -z "$CUDA_VISIBLE_DEVICES" ] || sleep 0.3'
    async with host(tmp_path, gpus=2) as on:
        for name in ("a", "b", "c"):
            await on.pod(name, shell(script, **asks))
        await on.pod("none", shell(script))
        for name in ("a", "b", "c", "none"):
            await on.phase(name, "Succeeded")
        assert await on.printed("none") == "[]\n"
        assert sorted([await on.printed("a"), await on.printed("b")]) == ["[0]\n", "[1]\n"]
        assert await on.printed("c") in ("[0]\n", "[1]\n")
        assert on.runner.shares.free() == [0, 1]


async def test_a_pod_that_waits_for_gpus_says_so_once(tmp_path: Path) -> None:
    async with host(tmp_path, gpus=0) as on:
        await on.pod("p", shell("true", resources={"limits": {"nvidia.com/gpu": "1"}}))
        await on.until(lambda: any(sandbox.containers["main"].tries > 1 for sandbox in on.runner.sandboxes.values()))
        (notice,) = on.said
        assert (notice.reason, notice.warning) == ("InsufficientGPUs", True)
        assert notice.note == "The pod waits for free GPUs: 1 requested, 0 free"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a pod as another user")
async def test_as_root_a_pod_runs_as_its_creator(tmp_path: Path) -> None:
    account = Account.of(pwd.getpwuid(NOBODY))
    for reachable in (tmp_path, *list(tmp_path.parents)[:3]):
        reachable.chmod(reachable.stat().st_mode | 0o011)
    script = (
        "id -u; id -g; id -G; echo $USER; pwd; touch mine; cat etc/key; echo; ls $0 2>&1; grep CapEff /proc/self/status"
    )
    container = {
        **shell(script),
        "args": [str(tmp_path / "data")],
        "volumeMounts": [{"name": "v", "mountPath": "/etc"}],
    }
    async with host(tmp_path / "data", scratch=tmp_path / "scratch", account=lambda pod: account) as on:
        (tmp_path / "data").chmod(0o700)
        await on.hold("Secret", "keys", {"key": "aHVzaA=="})
        uid = await on.pod("p", container, volumes=[{"name": "v", "secret": {"secretName": "keys"}}])
        await on.phase("p", "Succeeded")
        folder = tmp_path / "scratch" / uid / "main"
        lines = (await on.printed("p")).splitlines()
        groups = " ".join(str(group) for group in account.groups)
        assert lines[:6] == [str(NOBODY), str(account.gid), groups, account.name, str(folder), "hush"]
        assert "Permission denied" in lines[6]
        assert lines[7].split() == ["CapEff:", "0000000000000000"]
        assert (folder / "mine").stat().st_uid == NOBODY
        for path in (on.runner.folder, on.runner.folder / uid, *(on.runner.folder / uid).rglob("*")):
            assert path.stat().st_uid == 0
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a pod as another user")
async def test_as_root_no_link_of_a_user_leads_out_of_their_volume(tmp_path: Path) -> None:
    account = Account.of(pwd.getpwuid(NOBODY))
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    profile = tmp_path / "profile.d"
    profile.mkdir()
    data = {"name": "data", "mountPath": "/data"}
    plant = shell(f"ln -s {profile} data/x; ls -l data", "plant", volumeMounts=[data])
    inner = {"name": "mine", "mountPath": "/data/x/deep/evil.sh"}
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "mine", "emptyDir": {}}]
    async with host(tmp_path / "data", scratch=tmp_path / "scratch", account=lambda pod: account) as on:
        main = shell("true", volumeMounts=[data, inner])
        uid = await on.pod("p", main, initContainers=[plant], volumes=volumes)
        await on.until(lambda: "FailedMount" in on.reasons())
        assert (tmp_path / "scratch" / uid / ".volumes" / "data" / "x").readlink() == profile
        assert not list(profile.iterdir())
        assert not on.state("p").get("terminated")


async def test_a_scratch_folder_that_others_made_is_not_used(tmp_path: Path) -> None:
    async def story(scratch: Path) -> None:
        async with host(tmp_path / "data", scratch=scratch):
            raise AssertionError("it runs")

    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(SpawnError, match=f"{name}: must be a folder of the server's user"):
            await story(tmp_path / name)
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", NOBODY, NOBODY)
        with pytest.raises(SpawnError, match=f"belongs to user {NOBODY}"):
            await story(tmp_path / "theirs")


async def test_a_pod_of_nobody_known_does_not_run(tmp_path: Path) -> None:
    async with host(tmp_path, account=lambda pod: None) as on:
        await on.pod("p", shell("true"))
        await on.until(lambda: on.state("p").get("waiting"))
        assert "the creator of this pod is not a user of this machine" in on.state("p")["waiting"]["message"]


async def test_a_status_that_others_change_meanwhile_is_written_all_the_same(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        troubles = iter(["conflict", "unanswered"])

        def before(what: str) -> None:
            if what.startswith("patch pods"):
                trouble = next(troubles, "")
                if trouble == "conflict":
                    found = on.api.put(PODS, "p", "default", metadata={"labels": {"changed": "meanwhile"}})
                    assert found["metadata"]["labels"]["changed"] == "meanwhile"
                elif trouble:
                    raise KubeError("patch", 500, "", "the disk is full")

        on.api.before = before
        await on.pod("p", shell("exit 0"))
        await on.phase("p", "Succeeded")
        assert next(troubles, None) is None


async def test_a_pod_that_somebody_else_declares_over_is_ended(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("echo $$$$; sleep 1000"))
        await on.phase("p", "Running")
        pid = int(await on.printed("p"))
        on.api.put(PODS, "p", "default", status={"phase": "Failed", "reason": "Evicted"})
        await on.until(lambda: not process_start(pid))
        await on.until(lambda: not on.runner.sandboxes)
        assert on.status("p")["reason"] == "Evicted"


async def test_at_a_stop_pods_go_on_or_end(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("echo $$$$; sleep 1000"))
        await on.phase("p", "Running")
        pid = int(await on.printed("p"))
        await on.runner.stop("keep")
        assert process_start(pid)
        await on.runner.stop("terminate")
        assert not process_start(pid)
        assert on.status("p")["phase"] == "Failed"
        assert on.status("p")["reason"] == "Terminated"


async def test_a_supervisor_that_is_killed_does_not_go_unnoticed(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        uid = await on.pod("p", shell("echo $$$$; sleep 1000"))
        await on.phase("p", "Running")
        attempt = attempts.read_attempt(on.runner.folder, f"{uid}/main/0")
        assert attempt is not None
        assert attempt.command is not None
        os.kill(attempt.supervisor.pid, signal.SIGKILL)
        await on.phase("p", "Failed")
        assert terminated(on.state("p")) == (137, "ContainerStatusUnknown")
        assert not process_start(attempt.command.pid)


async def test_the_fork_server_may_die(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("sleep 0.6; exit 5"))
        await on.phase("p", "Running")
        server = on.runner.spawner.server
        assert server is not None
        server.kill()
        for number in range(5):
            await on.pod(f"q{number}", shell(f"echo x >> {tmp_path}/count; exit 0"))
        await on.phase("p", "Failed")
        assert terminated(on.state("p")) == (5, "Error")
        for number in range(5):
            await on.phase(f"q{number}", "Succeeded")
        assert (tmp_path / "count").read_text() == "x\n" * 5


async def test_a_pod_that_is_deleted_before_its_turn_never_starts(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        server = on.runner.spawner.server
        assert server is not None
        server.send_signal(signal.SIGSTOP)
        try:
            for name in ("p", "q"):
                await on.pod(name, shell(f"echo {name} >> {tmp_path}/ran"))
            await on.until(lambda: [one.asked for one in on.runner.alive()] == [True, True])
            await on.api.delete(PODS, "p", "default")
            await on.until(lambda: any(one.kill_at is not None for one in on.runner.alive()))
        finally:
            server.send_signal(signal.SIGCONT)
        await on.phase("q", "Succeeded")
        await on.until(lambda: on.stored("p") is None)
        assert (tmp_path / "ran").read_text() == "q\n"


async def test_news_that_were_not_heard_are_read(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        deaf = on.runner.spawner
        hear, deaf.on_notice = deaf.on_notice, lambda key, line: None
        await on.pod("p", shell("sleep 1000"))
        await on.phase("p", "Running")
        # One who hears only the end of the story reads its beginning.
        deaf.on_notice = lambda key, line: None if line.startswith("supervisor ") else hear(key, line)
        await on.pod("q", shell("sleep 0.05; exit 3"))
        await on.phase("q", "Failed")
        assert terminated(on.state("q")) == (3, "Error")
        deaf.on_notice = lambda key, line: None
        await on.pod("r", shell("sleep 1000"))
        await on.until(
            lambda: "r" in {text(sandbox.pod, "metadata", "name") for sandbox in on.runner.sandboxes.values()}
        )
        for name in ("p", "r"):
            await on.api.delete(PODS, name, "default")
        await on.until(lambda: on.stored("p") is None and on.stored("r") is None)


async def test_many_pods_at_once(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        for number in range(50):
            await on.pod(f"p{number}", shell(f"exit {number % 2}"))
        for number in range(50):
            await on.phase(f"p{number}", "Failed" if number % 2 else "Succeeded")


async def test_what_is_known_of_an_end_only_by_its_record_is_said_in_full(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        on.runner.spawner.on_notice = lambda key, line: None
        await on.pod("p", shell("echo no memory; exit 1", terminationMessagePolicy="FallbackToLogsOnError"))
        await on.phase("p", "Failed")
        assert on.state("p")["terminated"]["message"] == "no memory\n"


async def test_a_container_of_which_nothing_was_heard_is_probed_when_the_fork_server_dies(tmp_path: Path) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    async with host(tmp_path) as on:
        runner = on.runner
        runner.spawner.on_notice = lambda key, line: None
        uid = await on.pod("p", shell("sleep 1000", readinessProbe=probe))
        key = attempts.key_of(uid, "main", 0)
        await on.until(lambda: (found := attempts.read_attempt(runner.folder, key)) is not None and found.began)
        runner.supervisor_gone(key)
        assert [task.get_name() for task in runner.sandboxes[uid].containers["main"].tasks] == [f"readiness {key}"]
        await on.until(lambda: (on.status("p").get("containerStatuses") or [{}])[0].get("ready"))


async def test_folders_of_pods_that_are_gone_are_swept_at_the_start_and_nothing_else(tmp_path: Path) -> None:
    lost, kept = (tmp_path / "scratch" / name for name in ("0b0e54a5-0a52-4b0c-8d5e-7f2a6f1c9e10", "notes"))
    for folder in (lost, kept):
        (folder / "main").mkdir(parents=True)
    async with host(tmp_path) as on:
        await on.until(lambda: not lost.exists())
        assert kept.exists()
