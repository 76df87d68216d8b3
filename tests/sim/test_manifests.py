"""Is every mistake found, told with its place, and told together with the others?"""

import msgspec
import pytest

from pykueue.api.rules.rule import GATES
from pykueue.sim.manifests import BYTES_MAX, NODES_MAX, documents, is_configuration, objects
from tests.sim.builders import FLAVOR, configuration, job, queue

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)


def mistakes(text: str | bytes) -> list[str]:
    raw = text if isinstance(text, bytes) else text.encode()
    found, errors = documents("f.yaml", raw)
    return [str(error) for error in (*errors, *objects(found, GATES)[1])]


def only_mistake(text: str | bytes) -> str:
    (found,) = mistakes(text)
    return found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(b"", "f.yaml: holds no object; is it the right file?", id="empty file"),
        pytest.param(b"# nothing\n---\n---\n", "f.yaml: holds no object", id="empty documents"),
        pytest.param(bytes(range(256)), "f.yaml: byte 128 is not UTF-8", id="binary file"),
        pytest.param("a: [1,\nb: {", "f.yaml: document 1: line 3, column 1: not YAML", id="broken YAML"),
        pytest.param("a: b: c", "not YAML", id="not YAML at all"),
        pytest.param("hello", "holds string, no object; write one object", id="a text"),
        pytest.param("- 1\n- 2\n", "holds array, no object", id="a list"),
        pytest.param("kind: List\napiVersion: v1\nitems: [7]\n", "document 1, item 1: holds integer", id="odd item"),
        pytest.param("a: 1\na: 2\n", "a: duplicate key on line 2; it is on line 1 already", id="key twice"),
        pytest.param(BOMB, f"more than {NODES_MAX} values in one document", id="alias bomb"),
        pytest.param("a: " + "[" * 50_000, "nested deeper than 64 levels", id="deep YAML"),
        pytest.param('{"a": ' + "[" * 50_000, "nested deeper than 64 levels", id="deep JSON"),
        pytest.param("a: *nowhere\n", "nowhere", id="alias of nothing"),
        pytest.param("metadata: {name: x}\n", "kind: is missing; write one of", id="no kind"),
        pytest.param(
            FLAVOR.replace("ResourceFlavor", "resourceflavour"), "did you mean ResourceFlavor?", id="misspelt"
        ),
        pytest.param(FLAVOR.replace("v1beta2", "v1"), "write kueue.x-k8s.io/v1beta2 or kueue.x", id="wrong version"),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", "is not simulated", id="other kind"
        ),
        pytest.param("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\n", "is not simulated", id="not built"),
        pytest.param(
            configuration("").replace("config.kueue", "kueue"),
            "apiVersion: 'kueue.x-k8s.io/v1beta2' does not serve Configuration; write config.kueue.x-k8s.io/v1beta2",
            id="configuration of the wrong group",
        ),
        pytest.param(job("a").replace("batch/v1", "batch/v2"), "does not serve Job; write batch/v1", id="job version"),
        pytest.param(FLAVOR.replace("default", "x" * 300), "must be no more than 253 bytes", id="300 characters"),
        pytest.param(FLAVOR.replace("name: default", ""), "metadata.name: Required value", id="no name"),
        pytest.param(
            job("a").replace("metadata: {", "metadata: {namespace: a.b, "), "metadata.namespace", id="namespace"
        ),
        pytest.param(FLAVOR + "spec: {nodeLable: {a: b}}\n", "spec.nodeLable: unknown field", id="unknown field"),
        pytest.param(job("a").replace("{template", "{parallelism: many, template"), "spec.parallelism", id="many pods"),
        pytest.param(
            job("a", run_seconds=9).replace('"9"', "9"),
            'run-seconds in body must be of type string: "integer"; put the value in quotes',
            id="annotation without quotes",
        ),
        pytest.param(
            FLAVOR.replace("default}", "default, annotations: {a: true}}"), "put the value in quotes", id="and of ours"
        ),
        pytest.param(
            job("a").replace("{name: a,", "{name: a, creationTimestamp: today,", 1),
            "must be of type date-time",
            id="no date",
        ),
        pytest.param(FLAVOR + "---\n" + FLAVOR, "is in f.yaml: document 1 already; keep one", id="object twice"),
    ],
)
def test_one_mistake_is_told_with_its_place(text: str | bytes, says: str) -> None:
    assert says in only_mistake(text)


@pytest.mark.parametrize(
    ("cpu", "says"),
    [
        pytest.param("-1", "must be greater than or equal to 0", id="negative"),
        pytest.param("'" + "9" * 70 + "'", "is not a quantity", id="absurdly long"),
        pytest.param("lots", "nominalQuota", id="no number"),
        pytest.param("[1]", "must be of type integer,string", id="a list"),
    ],
)
def test_a_quota_must_be_a_quantity(cpu: str, says: str) -> None:
    found = only_mistake(queue(cpu=cpu))
    assert found.startswith(
        "f.yaml: document 1: ClusterQueue main: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "
    )
    assert says in found


def test_ten_thousand_resource_groups_are_too_many() -> None:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
    }
    tree = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "main"},
        "spec": {"resourceGroups": [group] * 10_000},
    }
    assert "spec.resourceGroups: Too many: 10000: must have at most 16 items" in only_mistake(msgspec.json.encode(tree))


def test_an_endless_file_is_refused() -> None:
    assert "longer than 64 MiB" in only_mistake(b" " * (BYTES_MAX + 1))


def test_all_mistakes_come_at_once() -> None:
    text = queue(cpu=-1) + "---\nhello\n---\n" + FLAVOR.replace("default", "A") + job("ok")
    found = mistakes(text)
    assert [one.split(":")[1].strip() for one in found] == ["document 3", "document 1", "document 4"]


def test_a_mistake_in_one_document_does_not_hide_the_next() -> None:
    text = "? [a]\n: b\n---\n" + FLAVOR.replace("default", "A")
    assert [one.split(":")[1].strip() for one in mistakes(text)] == ["document 1", "document 2"]


def test_json_yaml_and_lists_are_read_alike() -> None:
    tree = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [tree]}
    trees = [
        documents("f", raw)[0][0].tree
        for raw in (msgspec.json.encode(tree), FLAVOR.encode(), msgspec.json.encode(listed))
    ]
    assert trees == [tree, tree, tree]


def test_a_namespace_as_a_server_prints_it_is_read() -> None:
    printed = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspec: {finalizers: [kubernetes]}\nstatus: {}\n"
    assert mistakes(printed) == []
    assert "metadata.lables: unknown field" in only_mistake(printed.replace("name: a", "name: a, lables: {}"))


def test_names_are_made_of_generate_name() -> None:
    text = (job("a-") + job("a-")).replace("name: a-", "generateName: a-")
    found, errors = objects(documents("f", text.encode())[0], GATES)
    assert errors == []
    assert [one.key for one in found] == ["default/a-1", "default/a-2"]


def test_an_older_version_is_converted_and_judged() -> None:
    old = queue(cohort="c").replace("v1beta2", "v1beta1")
    found, errors = objects(documents("f", old.encode())[0], GATES)
    assert errors == []
    spec = found[0].tree["spec"]
    assert isinstance(spec, dict)
    assert spec["cohortName"] == "c"
    assert mistakes(queue(cohort="c"))[0].endswith("spec.cohort: unknown field; did you mean cohortName?")
    newer = queue(cohortName="c").replace("v1beta2", "v1beta1")
    assert mistakes(newer)[0].endswith("spec.cohortName: unknown field; did you mean cohort?")


def test_a_configuration_is_known_by_its_group() -> None:
    found, _ = documents("f", (configuration("") + FLAVOR.replace("apiVersion", "---\napiVersion")).encode())
    assert [is_configuration(one) for one in found] == [True, False]
