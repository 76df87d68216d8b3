"""How is `apiserver/wire/protobuf.json` made? Field numbers of Kubernetes' own kinds, read from its Go types.

    python -m tests.apiserver.wire.protobuf_recording API APIMACHINERY > src/pykueue/apiserver/wire/protobuf.json

The two folders are checkouts of k8s.io/api and k8s.io/apimachinery. Each message is a list of rows: number, name in
JSON (empty where its fields stand in the parent), type, and flags: `r` a list, `m` a map, `k` keep a zero. A type is
`s` text, `b` truth, `i` whole number, `f` fraction, `y` bytes, or the name of a message; those whose form the decoder
knows by itself (times, quantities and the like) stand under names without a package.
"""

import json
import re
import sys
from pathlib import Path

PACKAGES = (
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "batch/v1",
    "coordination/v1",
    "core/v1",
    "events/v1",
    "node/v1",
    "policy/v1",
    "scheduling/v1",
)
ROOTS = {
    "authentication/v1": ("SelfSubjectReview", "TokenReview"),
    "authorization/v1": (
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
    ),
    "autoscaling/v1": ("Scale",),
    "batch/v1": ("Job",),
    "coordination/v1": ("Lease",),
    "core/v1": (
        "Binding",
        "ConfigMap",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "Pod",
        "PodTemplate",
        "Secret",
        "ServiceAccount",
    ),
    "events/v1": ("Event",),
    "node/v1": ("RuntimeClass",),
    "policy/v1": ("Eviction",),
    "scheduling/v1": ("PriorityClass",),
    "meta/v1": ("DeleteOptions",),
}
META = "meta/v1"
KNOWN = {
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
    "meta/v1.Time": "Time",
    "meta/v1.MicroTime": "MicroTime",
    "meta/v1.Duration": "Duration",
    "meta/v1.FieldsV1": "FieldsV1",
}
"""Types whose form the decoder knows by itself."""
PLAIN = {
    "string": "s",
    "bool": "b",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "uint8": "i",
    "float64": "f",
    "[]byte": "y",
    "types.UID": "s",
    "types.NodeName": "s",
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ALIAS = re.compile(r"^type (\w+) (?!struct|interface)=?\s*([^\n{]+)$", re.MULTILINE)
FIELD = re.compile(r"^\t(?:(\w+) +)?([*\w\[\].]+) +`(.*)`")
TAG = re.compile(r'json:"([^"]*)".*protobuf:"([^"]*)"')


def read(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.go")) if "test" not in path.name)


class Recording:
    def __init__(self, api: Path, machinery: Path) -> None:
        texts = {package: read(api / package) for package in PACKAGES}
        texts[META] = read(machinery / "pkg/apis/meta/v1")
        self.structs = {(package, one[1]): one[2] for package, text in texts.items() for one in STRUCT.finditer(text)}
        self.aliases = {
            (package, one[1]): one[2].strip() for package, text in texts.items() for one in ALIAS.finditer(text)
        }
        self.made: dict[str, list[list[object]]] = {}

    def add(self, package: str, name: str) -> str:
        full = f"{package}.{name}"
        if full not in self.made:
            self.made[full] = []
            rows = [self.row(package, line) for line in self.structs[package, name].splitlines()]
            self.made[full] = [row for row in rows if row is not None]
        return full

    def row(self, package: str, line: str) -> list[object] | None:
        found = FIELD.match(line)
        tags = found and TAG.search(found[3])
        if not found or not tags:
            return None
        go, json_tag, numbers = found[2], tags[1].split(","), tags[2].split(",")
        pointer = go.startswith("*")
        kind, flags = self.type_of(package, go.removeprefix("*"))
        keeps = pointer or "omitempty" not in json_tag
        return [int(numbers[1]), "" if "inline" in json_tag else json_tag[0], kind, flags + "k" * keeps]

    def type_of(self, package: str, go: str) -> tuple[str, str]:
        if go in PLAIN:
            return PLAIN[go], ""
        if go.startswith("map[string]") or re.match(r"map\[\w+\]", go):
            return self.type_of(package, go.partition("]")[2])[0], "m"
        if go.startswith("[]"):
            return self.type_of(package, go.removeprefix("[]").removeprefix("*"))[0], "r"
        if go in KNOWN:
            return KNOWN[go], ""
        if go.startswith(("metav1.", "v1.", "corev1.", "apiv1.")):
            prefix, _, name = go.partition(".")
            return self.type_of(META if prefix == "metav1" else "core/v1", name)
        if f"{package}.{go}" in KNOWN:
            return KNOWN[f"{package}.{go}"], ""
        if (package, go) in self.structs:
            return self.add(package, go), ""
        alias = self.aliases[package, go]
        if alias.startswith("[]") and alias != "[]byte":
            # A named list is a message of its own on the wire.
            return f"List:{self.type_of(package, alias.removeprefix('[]'))[0]}", ""
        return self.type_of(package, alias)


def main() -> None:
    api, machinery = (Path(one) for one in sys.argv[1:])
    recording = Recording(api, machinery)
    for package, names in ROOTS.items():
        for name in names:
            recording.add(package, name)
    rows = (
        f"{json.dumps(name)}:{json.dumps(held, separators=(',', ':'))}" for name, held in sorted(recording.made.items())
    )
    print("{" + ",\n".join(rows) + "}")


if __name__ == "__main__":
    main()
