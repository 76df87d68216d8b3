"""What becomes of pods on nodes that are not there? KWOK stages, steered by annotations of the pod.

| annotation | meaning |
| --- | --- |
| `e2e.pykueue.io/ready-after: 2s` | ready so long after its start, or `never`; without it: at once |
| `e2e.pykueue.io/run-for: 3s` | ends so long after it was ready; without it: runs until it is deleted |
| `e2e.pykueue.io/fail: "true"` | when it ends, it has failed |
| `e2e.pykueue.io/unready-after: 2s` | stops being ready so long after it was, and does not end by itself |
| `e2e.pykueue.io/recover-after: 2s` | and is ready again so long after that |
| `e2e.pykueue.io/stop-for: 5s` | how long it takes to go away once it is deleted; without it: at once |
| `e2e.pykueue.io/now: succeeded` | set on a running pod by a test: `succeeded`, `failed`, `unready` or `ready`, now |

KWOK counts a delay anew when the pod is edited meanwhile.
"""

import json
from typing import Any

PREFIX = "e2e.pykueue.io/"

READY = '.status.conditions.[] | select( .type == "Ready" ) | .reason'
CONTAINERS = """\
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, restartCount: 0, ready: READY, state: STATE}
{{ end }}
"""
RUNS = "{running: {startedAt: {{ $now | Quote }}}}"
CONDITIONS = """\
{{ $now := Now }}
conditions:
- {type: Ready, status: "STATUS", reason: REASON, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "STATUS", reason: REASON, lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
"""
PLACE = """\
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false ( or .metadata.uid "" ) ( or .metadata.name "" ) .metadata.namespace | Quote }}
"""


Clause = tuple[str, str, list[str]]
"""An expression on the pod, an operator, and values."""


def annotation(name: str) -> str:
    return f'.metadata.annotations["{PREFIX}{name}"]'


def running(ready: bool, reason: str) -> str:
    """The template of a running pod's status."""
    conditions = CONDITIONS.replace("STATUS", str(ready)).replace("REASON", reason)
    return conditions + CONTAINERS.replace("READY", str(ready).lower()).replace("STATE", RUNS)


def ended(phase: str, code: int) -> str:
    """The template of an ended pod's status."""
    state = f"{{terminated: {{exitCode: {code}, reason: {phase}, finishedAt: {{{{ $now | Quote }}}}}}}}"
    conditions = CONDITIONS.replace("STATUS", "False").replace("REASON", phase)
    return conditions + CONTAINERS.replace("READY", "false").replace("STATE", state) + f"phase: {phase}\n"


def stage(name: str, when: list[Clause], status: str, delay: str = "", weight: int = 0) -> dict[str, Any]:
    """A stage of pods that nobody is deleting; of two that apply, one of greater weight is taken."""
    listed = [(".metadata.deletionTimestamp", "DoesNotExist", []), *when]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {
                "matchExpressions": [
                    {"key": key, "operator": how, **({"values": values} if values else {})}
                    for key, how, values in listed
                ]
            },
            "weight": weight,
            **({"delay": {"durationFrom": {"expressionFrom": annotation(delay)}}} if delay else {}),
            "next": {"statusTemplate": status},
        },
    }


RUNNING: Clause = (".status.phase", "In", ["Running"])
NEW: Clause = (".status.podIP", "DoesNotExist", [])


def reason(*values: str) -> Clause:
    return (READY, "In", list(values))


def has(name: str) -> Clause:
    return (annotation(name), "Exists", [])


def without(name: str) -> Clause:
    return (annotation(name), "DoesNotExist", [])


def now(value: str) -> Clause:
    return (annotation("now"), "In", [value])


SUCCEEDED, FAILED = ended("Succeeded", 0), ended("Failed", 1)
STAGES = [
    stage("start-ready", [NEW, without("ready-after")], running(True, "Started") + PLACE),
    stage("start-unready", [NEW, has("ready-after")], running(False, "Starting") + PLACE),
    stage(
        "become-ready",
        [RUNNING, reason("Starting"), (annotation("ready-after"), "NotIn", ["never"])],
        running(True, "Started"),
        "ready-after",
    ),
    stage(
        "become-unready", [RUNNING, reason("Started"), has("unready-after")], running(False, "Lost"), "unready-after"
    ),
    stage("recover", [RUNNING, reason("Lost"), has("recover-after")], running(True, "Recovered"), "recover-after"),
    stage(
        "succeed",
        [RUNNING, reason("Started", "Recovered"), has("run-for"), without("fail"), without("unready-after")],
        SUCCEEDED,
        "run-for",
    ),
    stage("fail", [RUNNING, reason("Started", "Recovered"), has("run-for"), has("fail")], FAILED, "run-for"),
    stage("succeed-now", [RUNNING, now("succeeded")], SUCCEEDED, weight=1),
    stage("fail-now", [RUNNING, now("failed")], FAILED, weight=1),
    stage("unready-now", [RUNNING, reason("Started", "Recovered"), now("unready")], running(False, "Lost"), weight=1),
    stage("ready-now", [RUNNING, reason("Starting", "Lost"), now("ready")], running(True, "Recovered"), weight=1),
    {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "delete"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]},
            "delay": {"durationFrom": {"expressionFrom": annotation("stop-for")}},
            "next": {"delete": True},
        },
    },
]


def stages_text() -> str:
    """The stages as a configuration file of KWOK."""
    return "\n---\n".join(json.dumps(one) for one in STAGES) + "\n"
