"""Who does a container run as? What a securityContext may ask for, and what comes of it in real processes."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from pykueue.node.setup.accounts import Account
from pykueue.node.setup.securitycontext import RefusedError, Scope, account_for, id_errors, several_users
from tests.node.podhost import host

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes with other ids")
ANN = Account(1001, 1001, (20, 1001), "ann", "/home/ann", "/bin/sh")
ROOT = Account(0, 0, (0,), "root", "/root", "/bin/sh")
NOBODY = 65534


def spec(pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    main: dict[str, Any] = {"name": "main"} | ({"securityContext": container} if container else {})
    return {"containers": [main], **({"securityContext": pod} if pod else {}), **more}


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        pytest.param(spec({"runAsUser": 0}), "securityContext.runAsUser", id="root"),
        pytest.param(spec({"runAsUser": 1002}), "securityContext.runAsUser", id="another user"),
        pytest.param(spec({"runAsGroup": 0}), "securityContext.runAsGroup", id="another group"),
        pytest.param(spec({"fsGroup": 4}), "securityContext.fsGroup", id="a group of files"),
        pytest.param(spec({"supplementalGroups": [20, 4]}), "securityContext.supplementalGroups", id="one of several"),
        pytest.param(spec(None, {"runAsUser": 0}), "containers[0].securityContext.runAsUser", id="in a container"),
        pytest.param(
            spec({"runAsUser": 1001}, {"runAsUser": 0}),
            "containers[0].securityContext.runAsUser",
            id="where a container overrules its pod",
        ),
        pytest.param(
            spec(initContainers=[{"name": "first", "securityContext": {"runAsGroup": 6}}]),
            "initContainers[0].securityContext.runAsGroup",
            id="in an init container",
        ),
    ],
)
def test_a_user_may_name_no_other_user_or_group(asked: dict[str, Any], at: str) -> None:
    (error,) = id_errors(asked, "spec", Scope(ANN))
    assert error.path == f"spec.{at}"
    assert "the pod runs as its creator's account ann (user 1001, groups 20, 1001)" in error.detail
    assert id_errors(asked, "spec", Scope(ROOT, any=True)) == []
    assert id_errors(asked, "spec", Scope(None)), "whoever has no account has no ids to name"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(spec(), id="nothing"),
        pytest.param(spec({"runAsUser": 1001, "runAsGroup": 20, "fsGroup": 20, "supplementalGroups": [20]}), id="ids"),
        pytest.param(spec({"runAsNonRoot": True}, {"runAsUser": 1001}), id="in a container"),
    ],
)
def test_a_user_may_name_the_own_account_and_its_groups(asked: dict[str, Any]) -> None:
    assert id_errors(asked, "spec", Scope(ANN)) == []


def test_a_server_that_is_not_root_gives_no_other_first_group() -> None:
    (error,) = id_errors(spec({"runAsGroup": 20, "fsGroup": 20}), "spec", Scope(ANN, switches=False))
    assert error.path == "spec.securityContext.runAsGroup"
    assert "as the server was not started by root" in error.detail


def test_no_more_than_a_hundred_mistakes_are_collected() -> None:
    asked = {"containers": [{"securityContext": {"runAsUser": 0}} for _ in range(1000)]}
    assert len(id_errors(asked, "spec", Scope(ANN))) == 100


@pytest.mark.parametrize(
    ("pod", "container", "ids"),
    [
        pytest.param({}, {}, (0, 0, (0,)), id="nothing asked"),
        pytest.param({"runAsUser": 4711}, {}, (4711, 4711, (4711,)), id="a user without a name"),
        pytest.param({"runAsUser": 4711, "runAsGroup": 5}, {}, (4711, 5, (5,)), id="and a group"),
        pytest.param({"runAsUser": 4711}, {"runAsUser": 4712}, (4712, 4712, (4712,)), id="the container's word"),
        pytest.param({"runAsGroup": 5}, {"runAsUser": 4711}, (4711, 5, (5,)), id="one from each"),
        pytest.param({"fsGroup": 7, "supplementalGroups": [9, 8]}, {}, (0, 0, (0, 7, 8, 9)), id="further groups"),
        pytest.param(
            {"supplementalGroupsPolicy": "Strict", "runAsGroup": 5, "fsGroup": 7}, {}, (0, 5, (5, 7)), id="those alone"
        ),
    ],
)
def test_an_administrators_container_has_the_ids_that_it_names(
    pod: dict[str, Any], container: dict[str, Any], ids: tuple[int, int, tuple[int, ...]]
) -> None:
    tree = {"spec": spec(pod, container)}
    account = account_for(tree, tree["spec"]["containers"][0], Scope(ROOT, any=True))
    assert (account.uid, account.gid, account.groups) == ids


@pytest.mark.parametrize(
    ("pod", "container", "says"),
    [
        pytest.param(
            {"runAsNonRoot": True}, {}, "container has runAsNonRoot and image will run as root", id="by default"
        ),
        pytest.param(
            {"runAsNonRoot": True}, {"runAsUser": 0}, "container's runAsUser breaks non-root policy", id="by its word"
        ),
        pytest.param({}, {"runAsNonRoot": True}, "image will run as root", id="asked by the container"),
    ],
)
def test_run_as_non_root_is_refused_to_root(pod: dict[str, Any], container: dict[str, Any], says: str) -> None:
    tree = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec(pod, container)}
    with pytest.raises(RefusedError, match=r"non-root|NonRoot") as refused:
        account_for(tree, tree["spec"]["containers"][0], Scope(ROOT, any=True))
    assert says in str(refused.value)
    assert str(refused.value).endswith('(pod: "p_n(u)", container: main)')


def test_run_as_non_root_is_well_where_nobody_is_root() -> None:
    tree = {"spec": spec({"runAsNonRoot": True})}
    main = tree["spec"]["containers"][0]
    assert account_for(tree, main, Scope(ANN)).uid == 1001
    tree = {"spec": spec({"runAsNonRoot": True}, {"runAsNonRoot": False})}
    assert account_for(tree, tree["spec"]["containers"][0], Scope(ROOT)).uid == 0


def test_what_was_stored_before_the_rule_does_not_start_as_another() -> None:
    tree = {"spec": spec({"runAsUser": 0})}
    with pytest.raises(RefusedError, match="runAsUser: 0 is not allowed"):
        account_for(tree, tree["spec"]["containers"][0], Scope(ANN))


def test_containers_of_several_users_are_known() -> None:
    other = {"name": "other", "securityContext": {"runAsUser": 7}}
    tree = spec({"runAsUser": 5})
    assert not several_users({"spec": tree}, Scope(ROOT, any=True))
    tree["containers"].append(other)
    assert several_users({"spec": tree}, Scope(ROOT, any=True))


def shell(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "command": ["sh", "-c", script], **more}


def opened(folder: Path) -> None:
    """Let every user of the machine pass through a test's folder."""
    for one in (folder, *list(folder.parents)[:3]):
        one.chmod(one.stat().st_mode | 0o011)


@AS_ROOT
async def test_a_process_really_has_the_ids(tmp_path: Path) -> None:
    opened(tmp_path)
    script = "id -u; id -g; id -G; grep CapEff /proc/self/status; touch mine data/ours; stat -c '%u %g' mine data/ours"
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    other = shell("id -u; cat data/ours && touch data/theirs", "other", securityContext={"runAsUser": 4712}, **mount)
    context = {"runAsUser": 4711, "runAsGroup": 4000, "supplementalGroups": [4001], "fsGroup": 4002}
    async with host(tmp_path / "data", scratch=tmp_path / "scratch") as on:
        await on.pod(
            "p",
            other,
            initContainers=[shell(script, "first", **mount)],
            volumes=[{"name": "v", "emptyDir": {}}],
            securityContext=context,
        )
        await on.phase("p", "Succeeded")
        lines = (await on.printed("p", container="first")).splitlines()
        assert lines[:2] == ["4711", "4000"]
        assert sorted(map(int, lines[2].split())) == [4000, 4001, 4002]
        assert lines[3].split() == ["CapEff:", "0000000000000000"]
        assert lines[4:] == ["4711 4000", "4711 4002"]
        assert (await on.printed("p", container="other")).splitlines() == ["4712"]


@AS_ROOT
async def test_a_group_alone_is_given_to_root_too(tmp_path: Path) -> None:
    async with host(tmp_path) as on:
        await on.pod("p", shell("id -u; id -g"), securityContext={"runAsGroup": 4000})
        await on.phase("p", "Succeeded")
        assert await on.printed("p") == "0\n4000\n"


@AS_ROOT
@pytest.mark.parametrize("where", ["pod", "container", "init container"])
async def test_run_as_non_root_does_not_start_as_with_the_kubelet(tmp_path: Path, where: str) -> None:
    context: dict[str, Any] = {"securityContext": {"runAsNonRoot": True}}
    main = shell("true", **(context if where == "container" else {}))
    first = [shell("true", "first", **context)] if where == "init container" else []
    async with host(tmp_path) as on:
        more: dict[str, Any] = {"initContainers": first} if first else {}
        await on.pod("p", main, **more, **(context if where == "pod" else {}))

        def waiting() -> dict[str, Any]:
            field = "initContainerStatuses" if first else "containerStatuses"
            held = on.stored("p").get("status", {}).get(field) or [{}]
            return dict(held[0].get("state", {}).get("waiting", {}))

        await on.until(lambda: waiting().get("reason") == "CreateContainerConfigError")
        assert waiting()["message"].startswith("container has runAsNonRoot and image will run as root (pod: ")
        assert "Failed" in on.reasons()


@AS_ROOT
async def test_a_users_process_gets_no_ids_that_are_not_its_own(tmp_path: Path) -> None:
    account = Account.of(pwd.getpwuid(NOBODY))
    async with host(
        tmp_path, account=lambda pod: account, may_choose=lambda pod: False, scratch=tmp_path / "scratch"
    ) as on:
        await on.pod("p", shell("id -u"), securityContext={"runAsUser": 0})
        await on.until(lambda: on.state("p").get("waiting", {}).get("reason") == "CreateContainerConfigError")
        assert "runAsUser: 0 is not allowed" in on.state("p")["waiting"]["message"]
