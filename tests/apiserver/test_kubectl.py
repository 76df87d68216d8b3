"""Does stock kubectl work? The real program against a server over TLS, with a token and with a certificate.

No controller runs here, so pods stay where they are put; the stories of `tests/e2e` show the whole system.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.standing import KUBECTL, Serving, serving
from tests.patience import soon

pytestmark = pytest.mark.skipif(not os.access(KUBECTL, os.X_OK), reason=f"there is no {KUBECTL} on this machine")

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
"""
TWO = """
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: t}}
spec:
  nodeName: box
  containers: [{name: a, image: x}, {name: b, image: x}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: box, labels: {node-role.kubernetes.io/worker: ""}}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cronSpec: {type: string, description: "When it is due."}
              replicas: {type: integer}
          status: {type: object, properties: {replicas: {type: integer}}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"""
CRON_TAB = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: one}
spec: {cronSpec: "* *", replicas: 1}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("kubectl")) as served:
        yield served


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines()]


def test_it_finds_out_what_there_is(up: Serving) -> None:
    assert "Server Version: v1.36" in up.kubectl("version")
    assert {"v1", "batch/v1", "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"} <= set(
        up.kubectl("api-versions").split()
    )
    kinds = up.kubectl("api-resources")
    for line in ("pods po v1 true Pod", "clusterqueues cq kueue.x-k8s.io/v1beta2 false ClusterQueue"):
        assert line.split() in rows(kinds)
    assert "jobs.batch" in up.kubectl("api-resources", "--namespaced", "-o", "name").split()
    assert "is running at" in up.kubectl("cluster-info")


def test_a_token_or_a_certificate_says_who_it_is(up: Serving) -> None:
    assert ["Username", "ann"] in rows(up.kubectl("auth", "whoami", who="ann"))
    shown, fingerprint = up.authority.issue("ann", ("pykueue:users",), up.stand.clock.now())
    path = up.kubeconfig("ann", credentials=shown)
    # What follows in brackets depends on whether kubectl has cached the kinds of this server.
    assert "You must be logged in to the server" in up.kubectl("get", "pods", config=path, code=1)
    up.stand.users.certify("ann", fingerprint)
    assert ["Username", "ann"] in rows(up.kubectl("auth", "whoami", config=path))
    up.stand.users.add("eve")
    wrong = up.kubeconfig("eve", token="wrong")
    assert "You must be logged in to the server" in up.kubectl("get", "pods", config=wrong, code=1)


def test_it_is_told_what_one_may_do(up: Serving) -> None:
    assert up.kubectl("auth", "can-i", "create", "jobs", who="ann") == "yes\n"
    assert up.kubectl("auth", "can-i", "create", "jobs", "-n", "lab", who="ann", code=1).startswith("no")
    assert "jobs.batch" in up.kubectl("auth", "can-i", "--list", who="ann")
    assert up.kubectl("get", "jobs", "-n", "lab", who="ann", code=1) == (
        'Error from server (Forbidden): jobs.batch is forbidden: User "ann" cannot list resource "jobs" in API group '
        '"batch" in the namespace "lab"\n'
    )
    assert "cannot get resource" in up.kubectl("get", "pods/x", "--as=ann", code=1)
    assert "cannot impersonate" in up.kubectl("get", "pods", "--as=admin", who="ann", code=1)


def test_it_creates_what_it_makes_itself(up: Serving) -> None:
    assert up.kubectl("create", "namespace", "made") == "namespace/made created\n"
    assert up.kubectl("create", "job", "j", "-n", "made", "--image=x", "--", "sh", "-c", "echo hi").endswith(
        "created\n"
    )
    assert up.kubectl(
        "get", "job", "j", "-n", "made", "-o", "jsonpath={.spec.template.spec.containers[0].command}"
    ) == ('["sh","-c","echo hi"]')
    up.kubectl("create", "configmap", "c", "-n", "made", "--from-literal=a=b")
    up.kubectl("create", "secret", "generic", "s", "-n", "made", "--from-literal=a=b")
    assert up.kubectl("get", "secret", "s", "-n", "made", "-o", "jsonpath={.data.a}") == "Yg=="
    up.kubectl("create", "priorityclass", "high", "--value=5", "--description=first")
    assert rows(up.kubectl("get", "pc", "high"))[1][:3] == ["high", "5", "false"]
    assert "already exists" in up.kubectl("create", "namespace", "made", code=1)
    assert 'namespaces "none" not found' in up.kubectl("create", "job", "j", "-n", "none", "--image=x", code=1)
    up.kubectl("run", "p", "-n", "made", "--image=x", "--restart=Never")
    assert rows(up.kubectl("get", "all", "-n", "made"))[1][:3] == ["pod/p", "0/1", "Pending"]


def test_it_applies_on_either_side(up: Serving) -> None:
    assert up.kubectl("apply", "-f", "-", stdin=QUEUES).count("created") == 3
    assert up.kubectl("apply", "-f", "-", stdin=QUEUES).count("unchanged") == 3
    changed = QUEUES.replace("nominalQuota: 4", "nominalQuota: 5")
    assert "+        nominalQuota: 5" in up.kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert up.kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed).count("(server dry run)") == 3
    assert up.kubectl("diff", "-f", "-", stdin=QUEUES) == ""
    assert "cq configured" in up.kubectl("apply", "-f", "-", stdin=changed)
    again = changed.replace("nominalQuota: 5", "nominalQuota: 6")
    conflict = up.kubectl("apply", "--server-side", "--field-manager=me", "-f", "-", stdin=again, code=1)
    assert 'conflict with "kubectl-client-side-apply"' in conflict
    forced = up.kubectl("apply", "--server-side", "--field-manager=me", "--force-conflicts", "-f", "-", stdin=again)
    assert forced.count("serverside-applied") == 3
    assert rows(up.kubectl("get", "cq", "-o", "wide"))[1] == ["cq", "BestEffortFIFO"]
    warned = up.kubectl("get", "clusterqueues.v1beta1.kueue.x-k8s.io")
    assert "Warning: This version is deprecated. Use v1beta2 instead." in warned
    assert "Nominal Quota:  6" in up.kubectl("describe", "cq", "cq")
    assert "unknown field" in up.kubectl("apply", "-f", "-", stdin=QUEUES.replace("spec: {", "spec: {x: 1, "), code=1)


MOOSE = """
apiVersion: {version}
kind: {kind}
metadata: {{name: x}}
"""
ODD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: odds.odd.example.com}
spec:
  group: odd.example.com
  scope: Namespaced
  names: {plural: odds, kind: Odd}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            nullable: true
            properties:
              port: {x-kubernetes-int-or-string: true}
              rest: {type: object, x-kubernetes-preserve-unknown-fields: true}
              many: {type: array, nullable: true, items: {type: string}}
              part: {type: number, minimum: 0.5, multipleOf: 0.5, default: 1.5}
              labels: {type: object, additionalProperties: {type: string, enum: [a, b]}}
"""


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        pytest.param("v1", "Moose", id="in a version that is there"),
        pytest.param("batch/v2", "Job", id="in a version that is not"),
        pytest.param("nowhere.example.com/v1", "Moose", id="in a group that is not"),
    ],
)
@pytest.mark.parametrize("who", ["admin", "ann"])
@pytest.mark.parametrize("how", [("apply",), ("create",), ("apply", "--server-side"), ("replace",)])
def test_of_an_unknown_kind_it_says_so(up: Serving, who: str, version: str, kind: str, how: tuple[str, ...]) -> None:
    """Not that the server lacks a content type, nor that the check of fields should be turned off."""
    said = up.kubectl(*how, "-f", "-", stdin=MOOSE.format(version=version, kind=kind), who=who, code=1)
    assert f'no matches for kind "{kind}" in version "{version}"' in said
    assert "--validate=false" not in said


@pytest.mark.parametrize("who", ["admin", "ann"])
def test_of_a_field_with_a_typo_it_names_the_field(up: Serving, who: str) -> None:
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: typo}
spec: {paralelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: x, comand: [a]}]}}}
"""
    for how in ("apply", "create"):
        said = up.kubectl(how, "-f", "-", stdin=job, who=who, code=1)
        assert 'unknown field "spec.paralelism", unknown field "spec.template.spec.containers[0].comand"' in said
        assert "--validate=false" not in said


def test_it_reads_the_older_document_with_whatever_a_definition_holds(up: Serving) -> None:
    up.kubectl("apply", "-f", "-", stdin=ODD)
    try:
        said = up.kubectl("apply", "-f", "-", stdin=MOOSE.format(version="v1", kind="Moose"), code=1)
        assert 'no matches for kind "Moose" in version "v1"' in said
        older = up.kubectl("explain", "odd", "--output=plaintext-openapiv2", "--recursive")
        assert "VERSION:  odd.example.com/v1" in older
    finally:
        up.kubectl("delete", "crd", "odds.odd.example.com")
    older = up.kubectl("explain", "clusterqueue.spec.cohortName", "--output=plaintext-openapiv2")
    assert "Cohort with which unused quota is shared." in older
    assert "<[]string>" in up.kubectl("explain", "job.spec.template.spec.containers", "--output=plaintext-openapiv2")


def test_it_explains_the_fields(up: Serving) -> None:
    explained = up.kubectl("explain", "workload.spec.queueName")
    assert "FIELD: queueName <string>" in explained
    assert "LocalQueue in which it waits." in explained
    assert "podSets" in up.kubectl("explain", "workload.spec", "--recursive")
    assert "command" in up.kubectl("explain", "job.spec.template.spec.containers")


def test_it_gets_in_every_form(up: Serving) -> None:
    for name in ("x", "y"):
        up.kubectl("create", "configmap", name, "-n", "ann", f"--from-literal=k={name}")
    up.kubectl("label", "configmap", "x", "-n", "ann", "team=a")
    up.kubectl("annotate", "configmap", "x", "-n", "ann", "note=b")
    assert rows(up.kubectl("get", "cm", "-n", "ann"))[1][:2] == ["x", "1"]
    assert [row[:2] for row in rows(up.kubectl("get", "cm", "-A"))[1:]][:1] == [["ann", "x"]]
    assert up.kubectl("get", "cm", "-n", "ann", "-l", "team=a", "-o", "name") == "configmap/x\n"
    assert up.kubectl("get", "cm", "-n", "ann", "--field-selector=metadata.name=y", "-o", "name") == "configmap/y\n"
    assert rows(up.kubectl("get", "cm", "-n", "ann", "--show-labels"))[1][3] == "team=a"
    assert up.kubectl("get", "cm", "x", "-n", "ann", "-o", "jsonpath={.metadata.annotations.note}") == "b"
    columns = up.kubectl(
        "get", "cm", "-n", "ann", "--sort-by=.data.k", "-o", "custom-columns=N:.metadata.name,K:.data.k"
    )
    assert rows(columns) == [["N", "K"], ["x", "x"], ["y", "y"]]
    assert "kind: ConfigMap" in up.kubectl("get", "cm", "x", "-n", "ann", "-o", "yaml")
    assert '"kind": "List"' in up.kubectl("get", "cm", "-n", "ann", "-o", "json")
    assert up.kubectl("get", "cm", "x", "-n", "ann", "-o", "go-template={{.data.k}}") == "x"
    paged = up.kubectl("get", "cm", "-n", "ann", "--chunk-size=1", "-o", "name")
    assert paged == "configmap/x\nconfigmap/y\n"
    assert "No resources found" in up.kubectl("get", "events", "-n", "ann")
    assert "No events found" in up.kubectl("events", "-n", "ann")
    assert up.kubectl("get", "pods/none", code=1) == 'Error from server (NotFound): pods "none" not found\n'
    assert "the server doesn't have a resource type" in up.kubectl("get", "moose", code=1)


def test_it_patches_in_every_way(up: Serving) -> None:
    up.kubectl("create", "configmap", "patched", "--from-literal=a=b")
    up.kubectl("patch", "cm", "patched", "--type=merge", "-p", '{"data":{"m":"1"}}')
    up.kubectl("patch", "cm", "patched", "--type=json", "-p", '[{"op":"add","path":"/data/j","value":"2"}]')
    up.kubectl("patch", "cm", "patched", "-p", '{"data":{"s":"3","a":null}}')
    edited = up.kubectl("get", "cm", "patched", "-o", "yaml").replace('m: "1"', 'm: "4"')
    up.kubectl("replace", "-f", "-", stdin=edited)
    assert up.kubectl("get", "cm", "patched", "-o", "jsonpath={.data}") == '{"j":"2","m":"4","s":"3"}'
    assert "the object has been modified" in up.kubectl("replace", "-f", "-", stdin=edited, code=1)
    up.kubectl("create", "job", "patched", "--image=x")
    up.kubectl("patch", "job", "patched", "-p", '{"spec":{"template":{"spec":{"containers":[]}},"parallelism":2}}')
    assert up.kubectl("get", "job", "patched", "-o", "jsonpath={.spec.parallelism}") == "2"
    refused = up.kubectl("patch", "job", "patched", "--type=merge", "-p", '{"spec":{"parallelism":-1}}', code=1)
    assert 'The Job "patched" is invalid: spec.parallelism' in refused


def test_it_edits(up: Serving) -> None:
    up.kubectl("create", "configmap", "edited", "--from-literal=a=before")
    editor = up.folder / "editor"
    editor.write_text('#!/bin/sh\nexec sed -i s/before/after/ "$1"\n')
    editor.chmod(0o700)
    done = subprocess.run(
        [KUBECTL, "edit", "configmap", "edited"],
        env={
            "KUBECONFIG": str(up.kubeconfig("admin")),
            "HOME": str(up.folder),
            "PATH": "/usr/bin:/bin",
            "EDITOR": str(editor),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "configmap/edited edited\n", done.stderr
    assert up.kubectl("get", "cm", "edited", "-o", "jsonpath={.data.a}") == "after"


def test_it_describes(up: Serving) -> None:
    up.kubectl("apply", "-f", "-", stdin=NODE)
    up.kubectl("apply", "-f", "-", stdin=TWO)
    assert "Roles:              worker" in up.kubectl("describe", "node", "box")
    described = up.kubectl("describe", "pod", "two")
    assert "Node:             box" in described
    assert "Annotations:      pykueue.io/created-by: admin" in described
    up.kubectl("create", "job", "described", "--image=x")
    assert "Completion Mode:  NonIndexed" in up.kubectl("describe", "job", "described")
    assert "Status:       Active" in up.kubectl("describe", "ns", "default")
    assert rows(up.kubectl("get", "nodes"))[1][:3] == ["box", "Unknown", "worker"]
    assert up.kubectl("cordon", "box") == "node/box cordoned\n"
    assert "SchedulingDisabled" in up.kubectl("get", "node", "box")
    assert "tainted" in up.kubectl("taint", "node", "box", "k=v:NoSchedule")


def test_it_reads_logs(up: Serving) -> None:
    up.kubectl("apply", "-f", "-", stdin=TWO.replace("two", "three"))
    assert up.kubectl("logs", "three", "-c", "b", "--tail=1") == "b: line 5\n"
    everyone = up.kubectl("logs", "three", "--all-containers", "--tail=1")
    assert sorted(everyone.splitlines()) == ["a: line 5", "b: line 5"]
    assert up.kubectl("logs", "-f", "three", "-c", "a").count("\n") == 5
    assert up.kubectl("logs", "three", "-c", "a", "--timestamps", "--since=1h").startswith("2027-01-15T08:00:00")
    assert "previous terminated container" in up.kubectl("logs", "-p", "three", "-c", "a", code=1)
    assert "a: line 5" in up.kubectl("logs", "-l", "app=t", "--tail=1", "-c", "a", "--prefix")
    assert "container x is not valid" in up.kubectl("logs", "three", "-c", "x", code=1)


def test_ports_are_not_forwarded_and_it_says_why(up: Serving) -> None:
    up.kubectl("apply", "-f", "-", stdin=TWO.replace("two", "four"))
    up.kubectl("patch", "pod", "four", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    assert "its ports are this machine's own" in up.kubectl("port-forward", "four", "0:80", code=1)


def test_it_waits(up: Serving) -> None:
    up.kubectl("run", "waited", "--image=x", "--restart=Never")
    status = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    with up.background("wait", "pod/waited", "--for=condition=Ready", "--timeout=30s") as waiting:
        time.sleep(0.3)
        up.kubectl("patch", "pod", "waited", "--subresource=status", "--type=merge", "-p", status)
        assert waiting.communicate(timeout=30)[0] == "pod/waited condition met\n"
    assert "condition met" in up.kubectl("wait", "pod/waited", "--for=jsonpath={.status.phase}=Running", "--timeout=5s")
    assert "timed out" in up.kubectl("wait", "pod/waited", "--for=condition=Other", "--timeout=100ms", code=1)
    with up.background("wait", "pod/waited", "--for=delete", "--timeout=30s") as waiting:
        time.sleep(0.3)
        up.kubectl("delete", "pod", "waited", "--force", "--grace-period=0")
        assert waiting.communicate(timeout=30)[0] == "pod/waited condition met\n"


def test_it_watches(up: Serving) -> None:
    up.kubectl("create", "namespace", "watched")
    with up.background("get", "cm", "-n", "watched", "-w", "--output-watch-events") as watching:
        until_streaming(up)
        up.kubectl("create", "configmap", "w", "-n", "watched", "--from-literal=a=b")
        up.kubectl("patch", "cm", "w", "-n", "watched", "-p", '{"data":{"c":"d"}}')
        up.kubectl("delete", "cm", "w", "-n", "watched")
        assert watching.stdout is not None
        seen = [watching.stdout.readline().split()[:3] for _ in range(4)]
        watching.kill()
    assert seen == [["EVENT", "NAME", "DATA"], ["ADDED", "w", "1"], ["MODIFIED", "w", "2"], ["DELETED", "w", "2"]]


def until_streaming(up: Serving) -> None:
    assert soon(lambda: up.server.streams), "kubectl does not watch"


def test_it_deletes_in_every_way(up: Serving) -> None:
    up.kubectl("create", "configmap", "gone", "--from-literal=a=b")
    assert up.kubectl("delete", "configmap", "gone") == 'configmap "gone" deleted\n'
    up.kubectl("run", "gone", "--image=x", "--restart=Never")
    assert 'pod "gone" deleted' in up.kubectl("delete", "pod", "gone", "--now")
    for cascade in ("background", "foreground", "orphan"):
        up.kubectl("create", "job", cascade, "--image=x")
        up.kubectl("delete", "job", cascade, f"--cascade={cascade}", "--wait=false")
    marks = up.kubectl("get", "jobs", "foreground", "orphan", "-o", "jsonpath={.items[*].metadata.finalizers[*]}")
    assert marks == "foregroundDeletion orphan"
    assert "not found" in up.kubectl("get", "job", "background", code=1)
    for name in ("a", "b"):
        up.kubectl("create", "configmap", name, "-n", "lab")
    assert up.kubectl("delete", "cm", "--all", "-n", "lab").count("deleted") == 2
    assert "NotFound" in up.kubectl("delete", "cm", "gone", code=1)
    assert up.kubectl("delete", "cm", "gone", "--ignore-not-found") == ""


def test_a_new_kind_works_at_once(up: Serving) -> None:
    up.kubectl("apply", "-f", "-", stdin=DEFINITION)
    up.kubectl("wait", "crd/crontabs.stable.example.com", "--for=condition=Established", "--timeout=10s")
    assert up.kubectl("apply", "-f", "-", stdin=CRON_TAB) == "crontab.stable.example.com/one created\n"
    assert [row[:3] for row in rows(up.kubectl("get", "ct"))] == [["NAME", "SPEC", "AGE"], ["one", "*", "*"]]
    assert up.kubectl("scale", "ct", "one", "--replicas=3") == "crontab.stable.example.com/one scaled\n"
    assert up.kubectl("get", "ct", "one", "-o", "jsonpath={.spec.replicas}") == "3"
    assert "When it is due." in up.kubectl("explain", "ct.spec")
    up.kubectl("delete", "crd", "crontabs.stable.example.com")
    assert "could not find the requested resource" in up.kubectl("get", "ct", code=1)


def test_a_server_that_stops_lets_go_of_those_who_watch(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.background("get", "ns", "-w") as watching:
        until_streaming(served)
        served.run(served.server.stop())
        assert "default" in watching.communicate(timeout=30)[0]
