"""Read manifests in YAML or JSON as validated objects, with every mistake in them at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykueue.api.codec import DecodeError, decode_as, kind_of
from pykueue.api.config.file import CURRENT as CONFIG_VERSION
from pykueue.api.config.types import GROUP as CONFIG_GROUP
from pykueue.api.config.types import KIND as CONFIGURATION
from pykueue.api.convert import V1BETA1, to_v1beta2
from pykueue.api.core import Json, KubeObject, ObjectMeta, Tree
from pykueue.api.fields import FieldError, invalid, required
from pykueue.api.jsontext import json_tree
from pykueue.api.kinds import Kind
from pykueue.api.labels import annotations_errors, dns_label, dns_subdomain, labels_errors
from pykueue.api.names import GROUP
from pykueue.api.pods import Job, LimitRange, RuntimeClass, TemplateError, from_tree
from pykueue.api.priorityclass import VERSION as PRIORITY_VERSION
from pykueue.api.priorityclass import PriorityClass, read_priority_class
from pykueue.api.rules import table
from pykueue.api.rules.podcheck import job_problems, template_problems
from pykueue.api.schema import defaults, helpful, json_type, problems, unknown_problems
from pykueue.api.yamlrepeats import repeated_trees
from pykueue.api.yamltext import DEPTH_MAX, Limits, Misread
from pykueue.base.struct import Frozen
from pykueue.base.text import printable
from pykueue.sim.shapes import alike, shape_of

BYTES_MAX: Final = 64 * 1024 * 1024
NODES_MAX: Final = 500_000
LIMITS: Final = Limits(
    DEPTH_MAX, NODES_MAX, NODES_MAX, BYTES_MAX, f"more than {NODES_MAX} values in one document; split it"
)
UNKNOWN_SHOWN_MAX: Final = 50
"""At most this many unknown fields of one object are listed."""

SIMULATED: Final = (
    "ClusterQueue",
    "LocalQueue",
    "ResourceFlavor",
    "Cohort",
    "WorkloadPriorityClass",
    "AdmissionCheck",
    "ProvisioningRequestConfig",
    "Workload",
    "Namespace",
)
NAMESPACED: Final = frozenset({"LocalQueue", "Workload", "LimitRange", "Job"})

View: TypeAlias = KubeObject | LimitRange | RuntimeClass | PriorityClass | Job
PLAIN: Final[Mapping[str, tuple[str, Callable[[Tree], View]]]] = {
    "LimitRange": ("v1", lambda tree: from_tree(tree, LimitRange)),
    "RuntimeClass": ("node.k8s.io/v1", lambda tree: from_tree(tree, RuntimeClass)),
    "PriorityClass": (PRIORITY_VERSION, read_priority_class),
    "Job": ("batch/v1", lambda tree: from_tree(tree, Job)),
}
"""Kubernetes kinds that are simulated: the API version of each, and its decoder."""


class Document(Frozen):
    """One object of a file."""

    file: str
    number: int
    """Its position in the file; 0 if `file` says everything."""
    tree: Tree
    item: int = 0
    """Its position in a List; 0 if it stands alone."""

    @property
    def where(self) -> str:
        """The file, and the number of the document."""
        within = f": document {self.number}" if self.number else ""
        return f"{self.file}{within}" + (f", item {self.item}" if self.item else "")

    @property
    def called(self) -> str:
        """The kind and name, as far as the object gives them."""
        metadata = self.tree.get("metadata")
        meta = metadata if isinstance(metadata, dict) else {}
        names = (self.tree.get("kind"), meta.get("name") or meta.get("generateName"))
        return " ".join(printable(name[:63]) for name in names if isinstance(name, str) and name)


class Mistake(Frozen):
    """One mistake: where it is, and what to do."""

    where: str
    text: str
    called: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.called, self.text) if part)


class Object(Frozen):
    """A validated object with defaults, or one whose mistakes are recorded."""

    document: Document
    kind: str
    namespace: str
    name: str
    tree: Tree
    view: View
    shape: int = 0
    """The same number for Jobs without mistakes that are of one shape (`shapes`); 0 for all other objects."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.view.metadata.annotations

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def documents(file: str, raw: bytes) -> tuple[list[Document], list[Mistake]]:
    """The objects of a file, items of a List one by one, and what cannot be read."""
    found: list[Document] = []
    mistakes: list[Mistake] = []
    number = 0
    for number, value, errors in trees(raw):
        where = f"{file}: document {number}"
        mistakes += (Mistake(where if number else file, str(error)) for error in errors)
        if errors or value is None:
            continue
        if not isinstance(value, dict):
            advice = "write one object with apiVersion, kind and metadata"
            mistakes.append(Mistake(where, f"holds {json_type(value)}, no object; {advice}"))
        else:
            found += unpacked(Document(file, number, value), mistakes)
    if not found and not mistakes:
        mistakes.append(Mistake(file, "holds no object; is it the right file?"))
    return found, mistakes


def unpacked(document: Document, mistakes: list[Mistake]) -> Iterator[Document]:
    """The document, or the items if it is a List."""
    items = document.tree.get("items")
    if document.tree.get("kind") != "List" or not isinstance(items, list):
        yield document
        return
    for index, item in enumerate(items, start=1):
        if isinstance(item, dict):
            yield replace(document, tree=item, item=index)
        else:
            mistakes.append(Mistake(f"{document.where}, item {index}", f"holds {json_type(item)}, no object"))


def trees(raw: bytes) -> Iterator[tuple[int, Json, tuple[Misread, ...]]]:
    """Each document of a text: its number from 1, its tree, and its mistakes; number 0 is the text as a whole."""
    if len(raw) > BYTES_MAX:
        yield 0, None, (Misread("", f"the file is longer than {BYTES_MAX >> 20} MiB; split it"),)
        return
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield 0, None, (Misread("", f"byte {error.start} is not UTF-8; is it the right file?"),)
        return
    read = json_tree(text) if text.lstrip().startswith("{") else None
    if read is not None:
        yield 1, read.value, read.mistakes
    else:
        yield from ((number, one.value, one.mistakes) for number, one in repeated_trees(text, LIMITS))


def is_configuration(document: Document) -> bool:
    """Whether this is the controller's Configuration."""
    version = document.tree.get("apiVersion")
    grouped = isinstance(version, str) and version.startswith(f"{CONFIG_GROUP}/")
    return grouped and document.tree.get("kind") == CONFIGURATION


def objects(found: Iterable[Document], gates: Mapping[str, bool]) -> tuple[list[Object], list[Mistake]]:
    """The objects of these documents, without duplicates, and all that is wrong with them."""
    judged: list[Object] = []
    mistakes: list[Mistake] = []
    seen: dict[tuple[str, str], Document] = {}
    given: dict[str, int] = {}
    shapes: dict[bytes, Object] = {}
    for document in found:
        errors: list[str] = []
        one = judge_once(named(document, given), gates, errors, shapes)
        mistakes += (Mistake(document.where, text, document.called) for text in dict.fromkeys(errors))
        if one is None:
            continue
        first = seen.setdefault((one.kind, one.key), document)
        if first is not document:
            mistakes.append(Mistake(document.where, f"is in {first.where} already; keep one", document.called))
        judged.append(one)
    return judged, mistakes


def named(document: Document, given: dict[str, int]) -> Document:
    """The document with a generated name, if it only gives a prefix."""
    metadata = document.tree.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") is not None:
        return document
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        return document
    given[prefix] = given.get(prefix, 0) + 1
    meta: Tree = {**metadata, "name": f"{prefix}{given[prefix]}"}
    return replace(document, tree={**document.tree, "metadata": meta})


def judge_once(
    document: Document, gates: Mapping[str, bool], errors: list[str], shapes: dict[bytes, Object]
) -> Object | None:
    """The object, if it passes validation; Jobs of one shape pass together, and mistakes are looked for in each."""
    shape = shape_of(document.tree)
    if shape is None:
        return judge(document, gates, errors)
    first = shapes.get(shape)
    if first is not None and isinstance(first.view, Job):
        same = placed(document, first.kind, document.tree, alike(first.view, document.tree))
        return replace(same, shape=first.shape)
    one = judge(document, gates, errors)
    if one is not None and not errors:
        one = shapes[shape] = replace(one, shape=len(shapes) + 1)
    return one


def judge(document: Document, gates: Mapping[str, bool], errors: list[str]) -> Object | None:
    """The object, if it passes an API server's validation."""
    tree = document.tree
    kind = tree.get("kind")
    if isinstance(kind, str) and kind in PLAIN:
        return judge_plain(document, kind, errors)
    if kind == CONFIGURATION:
        found = str(tree.get("apiVersion"))[:63]
        errors.append(f"apiVersion: {found!r} does not serve {kind}; write {CONFIG_VERSION}")
        return None
    try:
        known = kind_of(tree)
    except DecodeError as error:
        errors.append(other_kind(kind, str(error)))
        return None
    if known.kind not in SIMULATED:
        errors.append(other_kind(known.kind, ""))
        return None
    return judge_known(document, known, gates, errors)


def other_kind(kind: object, error: str) -> str:
    """The message for a kind that is not simulated."""
    if error and (not isinstance(kind, str) or kind in SIMULATED or "did you mean" in error):
        return error
    offer = ", ".join((*SIMULATED, *PLAIN, CONFIGURATION))
    return f"kind: {str(kind)[:63]!r} is not simulated; remove it; these are: {offer}"


def judge_plain(document: Document, kind: str, errors: list[str]) -> Object | None:
    """An object of one of Kubernetes' kinds; only the fields that we read are validated.

    One with mistakes is returned too, as far as it can be decoded: its requests may contain more of them.
    """
    version, read = PLAIN[kind]
    tree = document.tree
    if tree.get("apiVersion") != version:
        errors.append(f"apiVersion: {str(tree.get('apiVersion'))[:63]!r} does not serve {kind}; write {version}")
    errors += map(helpful, (*metadata_errors(kind, tree), *(job_problems(tree) if kind == "Job" else ())))
    try:
        seen = read(tree)
    except TemplateError as error:
        if not any(text.startswith(f"{error.path.partition('[')[0]}") for text in errors):
            errors.append(f"{error}; correct it or leave the field out")
        return None
    return placed(document, kind, tree, seen)


def judge_known(document: Document, known: Kind, gates: Mapping[str, bool], errors: list[str]) -> Object | None:
    """An object of Kueue's kinds, validated by its schema and by the rules across its fields."""
    tree, kind, old = document.tree, known.kind, document.tree.get("apiVersion") == V1BETA1
    version = "v1beta1" if old else "v1beta2"
    if old:
        errors += map(str, table.check(kind, tree, gates=gates, version="v1beta1", surface="CEL"))
    found = (*problems(known.view, tree, version), *metadata_errors(kind, tree), *template_errors(kind, tree))
    errors += dict.fromkeys(map(helpful, found))
    unknown = unknown_problems(known.view, tree, version)
    if known.group != GROUP:
        # Of Kubernetes' own kinds, the view has only the fields that we read.
        unknown = tuple(one for one in unknown if one.path.partition(".")[0] not in ("spec", "status"))
    errors += map(str, unknown[:UNKNOWN_SHOWN_MAX])
    if old:
        tree = to_v1beta2(tree)
    if len(unknown) > UNKNOWN_SHOWN_MAX:
        errors.append(f"and {len(unknown) - UNKNOWN_SHOWN_MAX} more unknown fields")
    if errors:
        return None
    whole = table.default(kind, defaults(known.view, tree), gates)
    errors += map(str, table.check(kind, whole, gates=gates, surface="webhook" if old else None))
    try:
        stored: Tree = dict(whole)  # type: ignore[arg-type]  # the rules give back the JSON that they were given
        seen = decode_as(known.view, stored)
    except DecodeError as error:
        errors.append(str(error))
        return None
    return None if errors else placed(document, kind, stored, seen)


def template_errors(kind: str, tree: Tree) -> Iterator[FieldError]:
    """What the API server would refuse in a Workload's pods, beyond its own schema."""
    spec = tree.get("spec")
    pod_sets = spec.get("podSets") if kind == "Workload" and isinstance(spec, dict) else None
    for index, pod_set in enumerate(pod_sets if isinstance(pod_sets, list) else ()):
        template = pod_set.get("template") if isinstance(pod_set, dict) else None
        if isinstance(template, dict):
            yield from template_problems(template, f"spec.podSets[{index}].template", unknown=False)


def placed(document: Document, kind: str, tree: Tree, view: View) -> Object:
    """The object with its name and namespace."""
    namespace = (view.metadata.namespace or "default") if kind in NAMESPACED else ""
    return Object(document, kind, namespace, view.metadata.name or "", tree, view)


def metadata_errors(kind: str, tree: Tree) -> Iterator[FieldError]:
    """The mistakes in the metadata of any object."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        yield required("metadata.name", "give the object a name")
        return
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if isinstance(name, str) and name:
        form = dns_label if kind == "Namespace" else dns_subdomain
        yield from (invalid("metadata.name", name, text) for text in form(name))
    elif name is None or name == "":
        yield required("metadata.name", "give the object a name")
    if isinstance(namespace, str) and namespace and kind in NAMESPACED:
        yield from (invalid("metadata.namespace", namespace, text) for text in dns_label(namespace))
    yield from labels_errors(metadata.get("labels"), "metadata.labels")
    yield from annotations_errors(metadata.get("annotations"), "metadata.annotations")
    if kind in PLAIN and kind != "Job":
        # For the other kinds the schema validates the metadata with the rest.
        yield from (replace(error, path=f"metadata.{error.path}") for error in problems(ObjectMeta, metadata))
