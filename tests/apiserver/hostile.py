"""Request bodies that once crashed or froze the server: small generators, and one row for each attack.

`ATTACKS` lists every attack as the calls to send, in order, in the name of an ordinary user whose namespace is
`NAMESPACE`. A body is built when it is asked for, since several are close to the limit of 3 MiB.
"""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests import builders
from tests.builders import pod_spec

NAMESPACE: Final = "default"
JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
QUEUE_NAME: Final = "bench"
"""The LocalQueue of `NAMESPACE` in which Jobs wait that are to run."""


class Body(NamedTuple):
    """A body and its media type."""

    content: bytes
    media: str


class Call(NamedTuple):
    """One request of an attack."""

    verb: str
    target: str
    body: Callable[[], Body]
    accepted: bool = False
    """Whether kube-apiserver accepts it, and the server therefore must."""


class Attack(NamedTuple):
    """Requests that are sent one after the other."""

    name: str
    calls: tuple[Call, ...]


def as_json(tree: object) -> Body:
    return Body(json.dumps(tree, separators=(",", ":")).encode(), JSON)


def job(name: str, **container: Any) -> dict[str, Any]:
    """A Job of one pod, suspended until Kueue admits it, which no queue does."""
    template = {"spec": pod_spec(command=["true"], **container)}
    return builders.job(name, namespace=NAMESPACE, suspend=True, template=template)


def env(count: int, value: str = "x") -> list[dict[str, str]]:
    return [{"name": f"E{index}", "value": f"{value}{index}"} for index in range(count)]


# YAML.


def nested_brackets(size: int = 30_000) -> Body:
    """Flow sequences in each other; 30 KB of them crashed libyaml's composer."""
    return Body(b"[" * size, YAML)


def nested_braces(size: int = 1_000_000) -> Body:
    """Flow mappings in each other."""
    return Body(b"{a: " * (size // 4), YAML)


def nested_blocks(depth: int = 2_000) -> Body:
    """Block mappings in each other, each line indented by one more space."""
    return Body(b"".join(b" " * level + b"a:\n" for level in range(depth)), YAML)


def sexagesimal(size: int = 3_000_000) -> Body:
    """One integer in base 60 with a million digits."""
    head = b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: base60}\nspec:\n  parallelism: 1"
    return Body(head + b":59" * ((size - len(head)) // 3), YAML)


def digits(size: int = 3_000_000) -> Body:
    """One decimal integer in YAML with three million digits."""
    return Body(b"apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: " + b"9" * size, YAML)


def scalars(count: int = 1_000_000) -> Body:
    """A flow sequence of a million scalars."""
    return Body(b"apiVersion: batch/v1\nkind: Job\nspec: [" + b"1," * count + b"1]", YAML)


def aliases(levels: int = 9, width: int = 9) -> Body:
    """Anchors of lists of aliases: a few hundred bytes that stand for a billion nodes."""
    lines = [f"a0: &a0 [{', '.join(['lol'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return Body("\n".join(lines).encode(), YAML)


def merges(count: int = 3_000) -> Body:
    """A mapping of many keys that is merged into many others."""
    keys = ", ".join(f"k{n}: 1" for n in range(count))
    return Body(f"a: &a {{{keys}}}\nb: [{', '.join(['{<<: *a}'] * count)}]".encode(), YAML)


def merge_chain(count: int = 20_000) -> Body:
    """Mappings of which each merges the one before and adds a key."""
    lines = ["m0: &m0 {k: 1}"]
    lines += [f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: 1}}" for n in range(1, count)]
    return Body("\n".join(lines).encode(), YAML)


def yaml_keys(count: int = 50_000) -> Body:
    """One mapping with many keys, each of them twice."""
    lines = b"".join(b"  k%d: v\n" % (n // 2) for n in range(count))
    return Body(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: keys}\ndata:\n" + lines, YAML)


# JSON.


def empty_containers(count: int = 100_000) -> Body:
    """A Job whose containers are all empty: each lacks a name and an image."""
    tree = job("empty")
    tree["spec"]["template"]["spec"]["containers"] = [{}] * count
    return as_json(tree)


def empty_containers_yaml(count: int = 20_000) -> Body:
    """The same in YAML."""
    return Body(empty_containers(count).content, YAML)


def empty_env(count: int = 100_000) -> Body:
    """A container with many empty environment variables."""
    return as_json(job("emptyenv", env=[{}] * count))


def owner_references(count: int = 20_000) -> Body:
    """A ConfigMap with many owners, none of which exists."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(count)]
    return as_json({"metadata": {"name": "owned", "ownerReferences": owners}})


def same_owner(count: int = 25_000) -> Body:
    """A ConfigMap with one owner many times."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * count
    return as_json({"metadata": {"name": "owned-twice", "ownerReferences": owners}})


def nested_json(depth: int = 1_000_000) -> Body:
    """JSON objects in each other."""
    return Body(b'{"a":' * (depth // 2), JSON)


def nested_lists(depth: int = 900) -> Body:
    """A ConfigMap with lists in each other below an unknown field, as deep as Python can still follow."""
    return Body(b'{"metadata":{"name":"deep"},"x":' + b"[" * depth + b"]" * depth + b"}", JSON)


def json_digits(size: int = 3_000_000) -> Body:
    """A JSON number with three million digits."""
    return Body(b'{"spec":{"parallelism":' + b"9" * size + b"}}", JSON)


def unknown_fields(count: int = 200_000) -> Body:
    """A Job with many fields that the schema does not know."""
    tree = job("unknown")
    tree["spec"] |= {f"f{n}": 1 for n in range(count)}
    return as_json(tree)


def duplicate_fields(count: int = 200_000) -> Body:
    """A ConfigMap with each field of its data twice."""
    pairs = ",".join(f'"k{n // 2}":"v"' for n in range(count))
    return Body(f'{{"metadata":{{"name":"twice"}},"data":{{{pairs}}}}}'.encode(), JSON)


def many_env(count: int = 15_000, name: str = "manyenv", value: str = "x") -> Body:
    """A Job with many environment variables, which kube-apiserver accepts."""
    return as_json(job(name, env=env(count, value)))


def queued_env(count: int = 15_000) -> Body:
    """The same in a queue, so that it gets a Workload, a pod and a process."""
    tree = job("queued", env=env(count), resources={"requests": {"cpu": "1"}})
    tree["metadata"]["labels"] = {QUEUE: QUEUE_NAME}
    return as_json(tree)


def queued_containers(count: int = 1_000) -> Body:
    """A queued Job with many containers."""
    tree = job("queued-containers")
    tree["metadata"]["labels"] = {QUEUE: QUEUE_NAME}
    tree["spec"]["template"]["spec"]["containers"] = [
        {"name": f"c{n}", "image": "none", "command": ["true"], "resources": {"requests": {"cpu": "1m"}}}
        for n in range(count)
    ]
    return as_json(tree)


def doubling_env(count: int = 60) -> Body:
    """A queued Job whose environment variables double each other's length."""
    variables = [{"name": "E0", "value": "x" * 100}]
    variables += [{"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(1, count)]
    tree = job("doubling", env=variables, resources={"requests": {"cpu": "1"}})
    tree["metadata"]["labels"] = {QUEUE: QUEUE_NAME}
    return as_json(tree)


def many_controllers(count: int = 20_000) -> Body:
    """A ConfigMap with many owners that all say that they control it."""
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}", "controller": True} for n in range(count)
    ]
    return as_json({"metadata": {"name": "controlled", "ownerReferences": owners}})


def review(size: int = 400_000) -> Body:
    """A question about one's own rights, with many YAML scalars in a field that nobody knows."""
    head = b"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {resourceAttributes: {}}\nx: ["
    return Body(head + b"1," * ((size - len(head)) // 2) + b"1]", YAML)


def many_references(count: int = 15_000) -> Body:
    """A Job with many environment variables, each of which refers to the one before."""
    tree = job("references", env=[{"name": f"E{n}", "value": f"$(E{n - 1})"} for n in range(count)])
    return as_json(tree)


def many_ports(count: int = 20_000) -> Body:
    """A container with many ports of one name."""
    return as_json(job("ports", ports=[{"name": "p", "containerPort": 80}] * count))


def many_mounts(count: int = 20_000) -> Body:
    """A container with many volume mounts at one path."""
    return as_json(job("mounts", volumeMounts=[{"name": f"v{n}", "mountPath": "/m"} for n in range(count)]))


def many_volumes(count: int = 8_000) -> Body:
    """A pod template with many volumes, each of them mounted."""
    tree = job("volumes", volumeMounts=[{"name": f"v{n}", "mountPath": f"/m{n}"} for n in range(count)])
    tree["spec"]["template"]["spec"]["volumes"] = [{"name": f"v{n}", "emptyDir": {}} for n in range(count)]
    return as_json(tree)


def many_containers(count: int = 5_000) -> Body:
    """A pod template with many complete containers, which kube-apiserver accepts."""
    tree = job("containers")
    tree["spec"]["template"]["spec"]["containers"] = [{"name": f"c{n}", "image": "none"} for n in range(count)]
    return as_json(tree)


def many_tolerations(count: int = 20_000) -> Body:
    """A pod template with many tolerations."""
    tree = job("tolerations")
    tree["spec"]["template"]["spec"]["tolerations"] = [
        {"key": f"k{n}", "operator": "Exists", "effect": "NoSchedule"} for n in range(count)
    ]
    return as_json(tree)


def many_labels(count: int = 60_000) -> Body:
    """A ConfigMap with many labels, which kube-apiserver accepts."""
    return as_json({"metadata": {"name": "labels", "labels": {f"l{n}": "v" for n in range(count)}}})


def many_finalizers(count: int = 60_000) -> Body:
    """A ConfigMap with many finalizers."""
    return as_json({"metadata": {"name": "finalizers", "finalizers": [f"a.b/f{n}" for n in range(count)]}})


def large_map(size: int = 2_900_000) -> Body:
    """A ConfigMap with one long text; kube-apiserver allows 1 MiB of data."""
    return as_json({"metadata": {"name": "large"}, "data": {"k": "x" * size}})


def many_keys(count: int = 60_000) -> Body:
    """A ConfigMap with many keys, which kube-apiserver accepts."""
    return as_json({"metadata": {"name": "manykeys"}, "data": {f"k{n}": "" for n in range(count)}})


# Protobuf.


def varint(value: int) -> bytes:
    made = b""
    while value > 0x7F:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def part(field: int, content: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def protobuf_containers(count: int = 700_000) -> Body:
    """A Job in protobuf with many empty containers, of two bytes each."""
    spec = part(2, b"") * count
    template = part(6, part(2, spec))
    about = part(1, part(1, b"batch/v1") + part(2, b"Job"))
    return Body(b"k8s\x00" + about + part(2, part(1, part(1, b"pb")) + part(2, template)), PROTOBUF)


def protobuf_env(count: int = 100_000) -> Body:
    """A Job in protobuf with many empty environment variables."""
    container = part(2, part(1, b"main") + part(2, b"none") + part(7, b"") * count)
    template = part(6, part(2, container))
    about = part(1, part(1, b"batch/v1") + part(2, b"Job"))
    return Body(b"k8s\x00" + about + part(2, part(1, part(1, b"pbenv")) + part(2, template)), PROTOBUF)


# Patches.


def applied_env(count: int = 15_000, value: str = "x") -> Body:
    """A Job with many environment variables, to be applied."""
    return Body(many_env(count, "applied", value).content, APPLY)


def applied_yaml(count: int = 15_000) -> Body:
    """The same as block YAML."""
    head = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: applied-yaml}\nspec:\n  suspend: true\n  template:\n"
        "    spec:\n      restartPolicy: Never\n      containers:\n"
        "      - name: main\n        image: none\n        env:\n"
    )
    return Body(
        (head + "".join(f"        - name: E{n}\n          value: x{n}\n" for n in range(count))).encode(), APPLY
    )


def json_patch(count: int = 40_000) -> Body:
    """Many operations, of which each puts something in front of a list."""
    one = {"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/c"}
    start = {"op": "add", "path": "/metadata/finalizers", "value": []}
    return Body(json.dumps([start, *[one] * count]).encode(), JSON_PATCH)


def json_patch_copies(count: int = 40) -> Body:
    """Operations of which each copies a part into itself: the object would double each time."""
    start = {"op": "add", "path": "/data", "value": {"a": "x" * 10_000}}
    more = [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(count)]
    return Body(json.dumps([start, *more]).encode(), JSON_PATCH)


def json_patch_tests(count: int = 9_000) -> Body:
    """Many operations that compare a large part."""
    return Body(json.dumps([{"op": "test", "path": "/metadata/name", "value": "seed"}] * count).encode(), JSON_PATCH)


def strategic_env(count: int = 15_000, value: str = "y") -> Body:
    """A strategic merge patch of as many environment variables as the Job has."""
    template = {"spec": {"containers": [{"name": "main", "env": env(count, value)}]}}
    return Body(json.dumps({"spec": {"template": template}}).encode(), STRATEGIC_PATCH)


def strategic_order(count: int = 15_000) -> Body:
    """A strategic merge patch that orders and deletes many environment variables."""
    order = [{"name": f"E{n}"} for n in reversed(range(count))]
    gone = [{"name": f"E{n}", "$patch": "delete"} for n in range(count)]
    container = {"name": "main", "$setElementOrder/env": order, "env": gone}
    return Body(
        json.dumps({"spec": {"template": {"spec": {"containers": [container]}}}}).encode(),
        STRATEGIC_PATCH,
    )


def merge_annotations(count: int = 60_000) -> Body:
    """A merge patch that removes many annotations, none of which is there."""
    return Body(
        json.dumps({"metadata": {"annotations": {f"a{n}": None for n in range(count)}}}).encode(),
        MERGE_PATCH,
    )


def merge_env(count: int = 15_000) -> Body:
    """A merge patch that replaces the containers by one with many environment variables."""
    tree = job("x", env=env(count, "z"))
    return Body(json.dumps({"spec": {"template": tree["spec"]["template"]}}).encode(), MERGE_PATCH)


def nothing() -> Body:
    """No body."""
    return Body(b"", JSON)


def seed() -> Body:
    """A ConfigMap for patches to change."""
    return as_json({"metadata": {"name": "seed"}, "data": {"k": "v"}})


def selector(count: int = 600) -> str:
    """A label selector with many requirements, as long as a request line may be."""
    return ",".join(f"k{n}+in+(a,b)" for n in range(count))[:7_000].rpartition(",k")[0]


def posted(target: str, *bodies: Callable[[], Body], accepted: bool = False) -> tuple[Call, ...]:
    return tuple(Call("POST", target, body, accepted) for body in bodies)


PATCHED: Final = f"{JOBS}/manyenv"
ATTACKS: Final = (
    Attack("nested YAML brackets", posted(JOBS, nested_brackets)),
    Attack("nested YAML braces", posted(JOBS, nested_braces)),
    Attack("nested YAML blocks", posted(JOBS, nested_blocks)),
    Attack("a YAML integer in base 60", posted(JOBS, sexagesimal)),
    Attack("a YAML integer of three million digits", posted(JOBS, digits)),
    Attack("a million YAML scalars", posted(JOBS, scalars)),
    Attack("YAML aliases of aliases", posted(MAPS, aliases)),
    Attack("YAML merge keys", posted(MAPS, merges)),
    Attack("a chain of YAML merge keys", posted(MAPS, merge_chain)),
    Attack("YAML keys that are there twice", posted(MAPS, yaml_keys)),
    Attack("empty containers in JSON", posted(JOBS, empty_containers)),
    Attack("empty containers in YAML", posted(JOBS, empty_containers_yaml)),
    Attack("empty environment variables in JSON", posted(JOBS, empty_env)),
    Attack("empty containers in protobuf", posted(JOBS, protobuf_containers)),
    Attack("empty environment variables in protobuf", posted(JOBS, protobuf_env)),
    Attack("owner references", posted(MAPS, owner_references)),
    Attack("an owner reference many times", posted(MAPS, same_owner)),
    Attack("nested JSON", posted(JOBS, nested_json)),
    Attack("nested JSON lists", posted(MAPS, nested_lists)),
    Attack("a JSON number of three million digits", posted(JOBS, json_digits)),
    Attack("unknown fields", posted(f"{JOBS}?fieldValidation=Strict", unknown_fields)),
    Attack("unknown fields to warn of", posted(f"{JOBS}?fieldValidation=Warn", unknown_fields)),
    Attack("fields that are there twice", posted(f"{MAPS}?fieldValidation=Strict", duplicate_fields)),
    Attack("a Job with many environment variables", posted(JOBS, many_env, accepted=True)),
    Attack("a queued Job with many environment variables", posted(JOBS, queued_env, accepted=True)),
    Attack("a queued Job with many containers", posted(JOBS, queued_containers, accepted=True)),
    Attack("environment variables that double", posted(JOBS, doubling_env, accepted=True)),
    Attack("many controlling owners", posted(MAPS, many_controllers)),
    Attack("a large access review", posted("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)),
    Attack("environment variables that refer to each other", posted(JOBS, many_references, accepted=True)),
    Attack("ports of one name", posted(JOBS, many_ports)),
    Attack("volume mounts at one path", posted(JOBS, many_mounts)),
    Attack("many volumes", posted(JOBS, many_volumes, accepted=True)),
    Attack("many containers", posted(JOBS, many_containers, accepted=True)),
    Attack("many tolerations", posted(JOBS, many_tolerations, accepted=True)),
    Attack("many labels", posted(MAPS, many_labels, accepted=True)),
    Attack("many finalizers", posted(MAPS, many_finalizers, accepted=True)),
    Attack("a large ConfigMap", posted(MAPS, large_map)),
    Attack("a ConfigMap with many keys", posted(MAPS, many_keys, accepted=True)),
    Attack(
        "server-side apply by two managers",
        (
            Call("PATCH", f"{JOBS}/applied?fieldManager=one", applied_env, True),
            Call("PATCH", f"{JOBS}/applied?fieldManager=two", applied_env, True),
            Call("PATCH", f"{JOBS}/applied?fieldManager=three", lambda: applied_env(value="other"), False),
            Call("PATCH", f"{JOBS}/applied?fieldManager=one", lambda: applied_env(10), True),
            Call("PATCH", f"{JOBS}/applied?fieldManager=two", lambda: applied_env(10), False),
        ),
    ),
    Attack(
        "server-side apply of block YAML",
        (Call("PATCH", f"{JOBS}/applied-yaml?fieldManager=one", applied_yaml, True),),
    ),
    Attack(
        "JSON patches",
        (
            Call("POST", MAPS, seed, True),
            Call("PATCH", f"{MAPS}/seed", json_patch),
            Call("PATCH", f"{MAPS}/seed", json_patch_copies),
            Call("PATCH", f"{MAPS}/seed", json_patch_tests, True),
            Call("PATCH", f"{MAPS}/seed", merge_annotations, True),
        ),
    ),
    Attack(
        "strategic merge patches",
        (
            Call("PATCH", PATCHED, strategic_env),
            Call("PATCH", PATCHED, strategic_order),
            Call("PATCH", PATCHED, merge_env),
            Call("DELETE", PATCHED, nothing),
        ),
    ),
    Attack("a long label selector", (Call("GET", f"{JOBS}?labelSelector={selector()}", nothing, True),)),
)
"""Every attack; those on `manyenv` need the Job that an earlier one creates."""
