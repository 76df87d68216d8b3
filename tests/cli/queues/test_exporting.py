"""What moves to a cluster, and what is said about the rest."""

from typing import Any

from pykueue.cli.queues.exporting import binding, cleaned, job, lint, problems, waits
from pykueue.cli.run.job import job as run_job
from pykueue.cli.run.job import resources


def submitted(**more: Any) -> Any:
    made: Any = run_job(
        ["python", "train.py"],
        queue="team-a",
        resources=resources("2", None, 0),
        name="train",
        priority=None,
        environment={"PATH": "/usr/bin", "SEED": "7"},
        image="local",
        seconds=None,
        umask=0o022,
    )
    made["metadata"] |= {
        "namespace": "lab",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{}],
        "creationTimestamp": "2027-01-01T00:00:00Z",
    }
    made["metadata"]["annotations"] |= {"pykueue.io/created-by": "alice", "note": "mine"}
    spec = made["spec"] | {"suspend": True, "selector": {"matchLabels": {"controller-uid": "u"}}} | more
    spec["template"]["metadata"]["labels"] = {"controller-uid": "u", "job-name": "train", "team": "a"}
    return made | {"spec": spec, "status": {"active": 0}}


def test_a_job_loses_what_this_server_added_and_nothing_else() -> None:
    moved = job(submitted())
    assert moved.tree["metadata"] == {
        "name": "train",
        "namespace": "lab",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
        "annotations": {"pykueue.io/command": "python train.py", "note": "mine"},
    }
    assert "status" not in moved.tree
    spec = moved.tree["spec"]
    assert "selector" not in spec
    assert spec["suspend"] is True
    assert spec["template"]["metadata"] == {"labels": {"team": "a"}}
    assert spec["template"]["spec"]["containers"][0]["command"] == ["python", "train.py"]


def test_a_selector_that_was_chosen_stays() -> None:
    assert job(submitted(manualSelector=True)).tree["spec"]["selector"] == {"matchLabels": {"controller-uid": "u"}}


def test_each_thing_of_the_machine_is_named_with_what_to_do() -> None:
    tree = submitted()
    pod = tree["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "d", "hostPath": {"path": "/data"}}, {"name": "s", "secret": {"secretName": "key"}}]
    pod["securityContext"] = {"runAsUser": 1000}
    tree["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "nightly"}]
    pod["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    found = "\n".join(problems(tree))
    for part in (
        "belongs to CronJob nightly; move that instead",
        "containers[0].image: 'local' is not an image; specify one",
        "containers[0].workingDir: ",
        "containers[0].env: PATH have values of this machine",
        "containers[0].envFrom: configMapRef settings is not exported",
        "volumes[0].hostPath: /data is a path on this machine",
        "volumes[1].secret: key is not exported",
        "securityContext: runAsUser refer to accounts of this machine",
    ):
        assert part in found
    assert lint([job(tree)])[0].startswith("Job lab/train: belongs to CronJob nightly")


def test_a_job_for_a_cluster_has_no_problem() -> None:
    tree = submitted()
    [container] = tree["spec"]["template"]["spec"]["containers"]
    container["image"] = "example.com/train:1"
    del container["workingDir"], tree["metadata"]["annotations"]["pykueue.io/command"]
    assert list(problems(tree)) == []


def test_only_what_waits_moves() -> None:
    assert waits(submitted())
    assert not waits(submitted(suspend=False))
    over = submitted()
    over["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
    assert not waits(over)
    going = submitted()
    going["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    assert not waits(going)


def test_users_get_kueues_roles() -> None:
    user, admin = binding("ann_b", "vision", admin=False), binding("carol", "", admin=True)
    assert user.where == "RoleBinding vision/pykueue-ann-b"
    assert user.tree["roleRef"]["name"] == "kueue-batch-user-role"
    assert admin.where == "ClusterRoleBinding pykueue-carol"
    assert admin.tree["roleRef"]["name"] == "kueue-batch-admin-role"


def test_empty_metadata_is_left_out() -> None:
    tree: Any = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "annotations": {}}, "spec": {}}
    assert cleaned(tree) == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {}}
