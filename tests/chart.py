"""Write the templates of the Helm chart in deploy/helm from the objects of `pykueue manifests`: `make chart`.

Every object is rendered with marks in place of what the values of the chart decide, and once more for each setting that
adds, removes or changes lines. The marks become expressions, and the lines that differ conditions. The schema of the
values is that of `tests.chartvalues`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final

import yaml
from msgspec.structs import replace

from pykueue.api.config.types import (
    Configuration,
    Health,
    InternalCertManagement,
    Metrics,
    VisibilityServer,
    Webhook,
)
from pykueue.api.core import LabelSelector, Tree
from pykueue.api.install.deployment import shipped
from pykueue.api.install.install import Install
from pykueue.api.install.manifests import OPTIONAL, PARTS, rendered
from pykueue.api.trees import member, text
from pykueue.base.struct import Frozen
from tests.chartvalues import VALUES_OF_KUEUE, schema, unsupported
from tests.storyfile import ROOT

CHART: Final = ROOT / "deploy/helm"
HEAD: Final = "{{- /* Generated from the objects of `pykueue manifests`: make chart. */ -}}\n"
CONFIG: Final = '{{- $config := include "pykueue.configuration" . | fromYaml -}}\n'
NAMESPACE: Final = "mark-namespace"
SELECTOR: Final = "mark-selector"
CONFIGURATION: Final = "mark-configuration\n"
MARKS: Final[Mapping[str, str]] = {
    NAMESPACE: "{{ .Release.Namespace }}",
    sha256(CONFIGURATION.encode()).hexdigest(): '{{ include "pykueue.checksum" . | quote }}',
    "mark-image": '{{ include "pykueue.image" . | quote }}',
    "61000": "{{ .Values.replicas }}",
    "61001": '{{ dig "webhook" "port" 9443 $config }}',
    "61002": '{{ include "pykueue.metricsPort" $config }}',
    "61003": '{{ include "pykueue.healthPort" $config }}',
    "61004": '{{ dig "visibilityServer" "bindPort" 8082 $config }}',
}
"""What stands in an object, and the expression that takes its place."""
BASE: Final = Install(
    namespace=NAMESPACE,
    image="mark-image",
    replicas=61000,
    configuration=Configuration(
        namespace=NAMESPACE,
        webhook=Webhook(port=61001),
        metrics=Metrics(bind_address=":61002"),
        health=Health(health_probe_bind_address=":61003"),
        visibility_server=VisibilityServer(bind_port=61004),
        managed_jobs_namespace_selector=LabelSelector(match_labels={SELECTOR: "true"}),
    ),
    text=CONFIGURATION,
)
WRAPPED: Final = {
    "namespace": ".Values.createNamespace",
    "crds": ".Values.crds.install",
    "visibility-apf": ".Values.visibilityFlowControl",
}
"""Parts that a value turns on."""
SWITCHED: Final = {"PodDisruptionBudget kueue-manager-pdb": ".Values.podDisruptionBudget.enabled"}
"""Objects that a value turns off."""
POD_VALUES: Final = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""Values that are fields of the pods."""
KEPT: Final[Tree] = {"annotations": {"helm.sh/resource-policy": "keep"}}
"""Uninstalling the chart leaves the definitions, and with them all queues and Workloads, in place."""


def configured(**changes: object) -> Install:
    """The installation with another Configuration."""
    return replace(BASE, configuration=replace(BASE.configuration, **changes))


SETTINGS: Final[Mapping[str, Install]] = {
    ".Values.tolerateUnknownGates": replace(BASE, tolerate_unknown_gates=True),
    'not (dig "internalCertManagement" "enable" true $config)': configured(
        internal_cert_management=InternalCertManagement(enable=False)
    ),
    'not (dig "featureGates" "VisibilityOnDemand" true $config)': configured(
        feature_gates={"VisibilityOnDemand": False}
    ),
    'eq (include "pykueue.metricsPort" $config) "0"': configured(metrics=Metrics(bind_address="0")),
    'eq (include "pykueue.healthPort" $config) "0"': configured(health=Health(health_probe_bind_address="0")),
    "$config.manageJobsWithoutQueueName": configured(manage_jobs_without_queue_name=True),
    'and (eq .Values.defaultQueues "webhook") (not $config.manageJobsWithoutQueueName)': replace(
        BASE, default_queues="webhook"
    ),
}
"""Conditions that change lines, each with the installation in which it alone holds."""


class Hunk(Frozen):
    """Lines that a condition replaces."""

    start: int
    end: int
    condition: str
    instead: tuple[str, ...]


def trees(part: str, install: Install) -> dict[str, Tree]:
    """The objects of a part, by kind and name."""
    made = (PARTS | OPTIONAL)[part](install)
    return {f"{tree['kind']} {text(tree, 'metadata', 'name')}": kept(tree) for tree in made}


def kept(tree: Tree) -> Tree:
    """An object, marked to be kept if it is a definition."""
    if tree["kind"] != "CustomResourceDefinition":
        return tree
    metadata = member(tree, "metadata")
    assert isinstance(metadata, dict)
    return {**tree, "metadata": {**metadata, **KEPT}}


def hunks(base: list[str], others: Iterable[tuple[str, str]]) -> list[Hunk]:
    """The lines that differ under each condition, in order."""
    found: dict[tuple[int, int, tuple[str, ...]], list[str]] = {}
    for condition, other in others:
        lines = other.splitlines()
        for tag, start, end, low, high in SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
            if tag != "equal":
                found.setdefault((start, end, tuple(lines[low:high])), []).append(condition)
    made = [Hunk(start, end, any_of(conditions), instead) for (start, end, instead), conditions in found.items()]
    ordered = sorted(made, key=lambda hunk: (hunk.start, hunk.end))
    for first, second in pairwise(ordered):
        assert first.end <= second.start, f"{first.condition} and {second.condition} change the same lines"
    return ordered


def any_of(conditions: list[str]) -> str:
    """A condition that holds if one of these holds."""
    return conditions[0] if len(conditions) == 1 else f"or {' '.join(f'({one})' for one in conditions)}"


def conditional(base: str, others: Iterable[tuple[str, str]]) -> str:
    """A text in which each difference is a condition."""
    lines, made, at = base.splitlines(), [], 0
    for hunk in hunks(lines, others):
        made += lines[at : hunk.start]
        if not hunk.instead:
            made += [f"{{{{- if {negated(hunk.condition)} }}}}", *lines[hunk.start : hunk.end]]
        else:
            made += [f"{{{{- if {hunk.condition} }}}}", *hunk.instead]
            made += ["{{- else }}", *lines[hunk.start : hunk.end]] if hunk.end > hunk.start else []
        made.append("{{- end }}")
        at = hunk.end
    return "\n".join([*made, *lines[at:], ""])


def negated(condition: str) -> str:
    """The opposite of a condition."""
    found = re.fullmatch(r"not \((.*)\)", condition)
    return found[1] if found else f"not ({condition})"


def objects(part: str) -> Iterator[str]:
    """The template of each object of a part; every object is there without a condition."""
    others = {condition: trees(part, install) for condition, install in SETTINGS.items()}
    base = trees(part, BASE)
    assert all(found.keys() <= base.keys() for found in others.values())
    for name, tree in base.items():
        changed = {condition: found.get(name) for condition, found in others.items() if found.get(name) != tree}
        made = conditional(
            rendered([tree]), [(one, rendered([found] if found else [])) for one, found in changed.items()]
        )
        yield enclosed(made, SWITCHED.get(name))


def enclosed(made: str, condition: str | None) -> str:
    """A template that is only rendered on this condition."""
    return f"{{{{- if {condition} }}}}\n{made}{{{{- end }}}}\n" if condition else made


def with_values(made: str) -> str:
    """A template with the expressions for its marks."""
    made = re.sub(rf"(?m)^( *)matchLabels:\n +{SELECTOR}: 'true'$", selector, made)
    return re.sub(rf"\b({'|'.join(MARKS)})\b", lambda found: MARKS[found[1]], made)


def selector(found: re.Match[str]) -> str:
    """The expression for the selector of managed namespaces, at the depth of its mark."""
    return f'{found[1]}{{{{- include "pykueue.managedNamespaces" $config | nindent {len(found[1])} }}}}'.lstrip()


def escaped(made: str) -> str:
    """A text whose braces are not read as an expression."""
    return made.replace("{{", '{{ "{{" }}')


def optional(value: str, line: str) -> str:
    """A line that is only there if the value is not empty."""
    return f"{{{{- with .Values.{value} }}}}\n{line}\n{{{{- end }}}}\n"


def entries(value: str, indent: str) -> str:
    """A value that is a list or an object, below its field."""
    return f"{{{{- toYaml {value} | nindent {len(indent)} }}}}"


def pod_fields(indent: str) -> str:
    """The fields of the pods that are values."""
    fields = (optional(value, f"{indent}{value}: {entries('.', indent + '  ')}") for value in POD_VALUES)
    return optional("priorityClassName", f"{indent}priorityClassName: {{{{ quote . }}}}") + "".join(fields)


def arguments(indent: str) -> str:
    """The arguments of the manager that are values."""
    level = (
        f'{{{{- if ne .Values.logLevel "info" }}}}\n{indent}- --log-level={{{{ .Values.logLevel }}}}\n{{{{- end }}}}\n'
    )
    return level + optional("extraArgs", f"{indent}{entries('.', indent)}".lstrip())


EDITS: Final[Mapping[str, Callable[[str, str], str]]] = {
    r"( +)kubectl.kubernetes.io/default-container: .*\n": lambda found, indent: (
        found + optional("podAnnotations", entries(".", indent))
    ),
    r"( +)control-plane: .*\n(?= +spec:)": lambda found, indent: found + optional("podLabels", entries(".", indent)),
    r"( +)serviceAccountName: .*\n": lambda found, indent: found + pod_fields(indent),
    r"( +)topologySpreadConstraints:\n(?:\1[- ].*\n)+(?=\1containers)": lambda _, indent: "",
    r"( +)imagePullPolicy: .*\n": lambda _, indent: f"{indent}imagePullPolicy: {{{{ .Values.image.pullPolicy }}}}\n",
    r"( +)ports:\n(?=.*\n +containerPort)": lambda found, indent: arguments(indent) + found,
    r"( +)resources:\n(?:\1 +.*\n)+": lambda _, indent: (
        f"{indent}resources: {entries('.Values.resources', indent + '  ')}\n"
    ),
}
"""Lines of the Deployment, each found once, and what replaces them, given the lines and their indentation."""


def deployment(made: str) -> str:
    """The template of the Deployment with the values that only the chart has."""
    for pattern, edit in EDITS.items():
        (found,) = re.finditer(rf"(?m)^{pattern}", made)
        made = made[: found.start()] + edit(found[0], found[1]) + made[found.end() :]
    return made


def configuration(made: str) -> str:
    """The template of the ConfigMap with the Configuration of the values."""
    found = re.search(rf"(?m)^( +)(\S+): \|\n +{CONFIGURATION}", made)
    assert found is not None
    text = f'{{{{- include "pykueue.configuration" . | nindent {len(found[1]) + 2} }}}}'
    return made.replace(found[0], f"{found[1]}{found[2]}: | {text}\n")


def template(part: str) -> str:
    """The template of a part."""
    made = "".join(map(escaped_object, objects(part)))
    made = deployment(made) if part == "manager" else configuration(made) if part == "config" else made
    return HEAD + CONFIG + with_values(enclosed(made, WRAPPED.get(part)))


def escaped_object(made: str) -> str:
    """The template of an object whose own braces are escaped; conditions begin a line."""
    return "".join(line if line.startswith("{{-") else escaped(line) for line in made.splitlines(keepends=True))


def defaults() -> str:
    """The Configuration that an installation starts with, as a named template."""
    text = shipped(NAMESPACE).replace(NAMESPACE, "{{ .Release.Namespace }}")
    return HEAD + defined("defaults", text)


def defined(name: str, text: str) -> str:
    """A named template."""
    return f'{{{{- define "pykueue.{name}" -}}}}\n{text}{{{{- end -}}}}\n'


def advice() -> str:
    """What to tell about values of Kueue's chart, and about keys with which the manager does not start."""
    tables = {"valuesOfKueue": dict(VALUES_OF_KUEUE), "unsupported": unsupported()}
    return HEAD + "".join(defined(name, yaml.safe_dump(table, width=1000)) for name, table in tables.items())


@cache
def files() -> dict[Path, str]:
    """The generated files of the chart."""
    made = {Path(f"templates/{part}.yaml"): template(part) for part in (PARTS | OPTIONAL)}
    return {
        **made,
        Path("templates/_defaults.tpl"): defaults(),
        Path("templates/_advice.tpl"): advice(),
        Path("values.schema.json"): json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def version() -> str:
    """The version of the chart."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])


if __name__ == "__main__":
    for name, made in files().items():
        (CHART / name).write_text(made)
