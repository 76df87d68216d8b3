"""Does a pod of a Job look as Kubernetes makes it?"""

from typing import Any

import msgspec
import pytest

from pykueue.kubecontrollers.jobplan import NewPod
from pykueue.kubecontrollers.jobviews import Job, JobSpec, Work
from pykueue.kubecontrollers.newpods import new_pods

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def made(template: dict[str, Any], *wanted: NewPod, mode: str = "NonIndexed", name: str = "train") -> list[Any]:
    spec = JobSpec(completion_mode=mode, template=msgspec.Raw(msgspec.json.encode(template)))
    found = new_pods(Job("team-a", name, 1), Work("job-uid", spec, msgspec.UNSET), wanted)  # type: ignore[arg-type]  # a table gives it as an object
    return [msgspec.json.decode(one) for one in found]


def test_a_plain_pod_is_its_template_and_its_owner() -> None:
    template = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}, "spec": {"containers": []}}
    (pod,) = made(template, NewPod())
    assert pod["metadata"].pop("ownerReferences")[0]["uid"] == "job-uid"
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "team-a",
            "generateName": "train-",
            "labels": {"a": "b"},
            "annotations": {},
            "finalizers": ["example.com/f", "batch.kubernetes.io/job-tracking"],
        },
        "spec": {"containers": []},
    }


def test_an_indexed_pod_knows_its_index() -> None:
    template = {
        "spec": {
            "initContainers": [{"name": "i"}],
            "containers": [
                {"name": "a", "env": [{"name": "X"}]},
                {"name": "b", "env": [{"name": "JOB_COMPLETION_INDEX"}]},
            ],
        }
    }
    one, two = made(template, NewPod(0), NewPod(12, 3, 2), mode="Indexed")
    variable = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
    }
    assert one["spec"] == {
        "hostname": "train-0",
        "initContainers": [{"name": "i", "env": [variable]}],
        "containers": [
            {"name": "a", "env": [{"name": "X"}, variable]},
            {"name": "b", "env": [{"name": "JOB_COMPLETION_INDEX"}]},
        ],
    }
    assert one["metadata"]["labels"] == one["metadata"]["annotations"] == {INDEX: "0"}
    assert two["metadata"]["generateName"] == "train-12-"
    assert two["metadata"]["annotations"] == {INDEX: "12", FAILURES: "3", IGNORED: "2"}
    assert two["spec"]["hostname"] == "train-12"


@pytest.mark.parametrize("length", [53, 63])
def test_a_long_name_leaves_room_for_the_index(length: int) -> None:
    (pod,) = made({}, NewPod(7), mode="Indexed", name="x" * length)
    prefix = pod["metadata"]["generateName"]
    assert prefix.endswith("-7-")
    assert len(prefix) == min(length + 3, 58)
