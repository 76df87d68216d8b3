"""Mistakes in volumes, each with the message of kube-apiserver."""

from typing import Any

import pytest

from pykueue.apiserver.kinds.validation_volumes import volume_errors

AT = "spec.volumes[0]"


def errors(*volumes: dict[str, Any]) -> list[str]:
    return [str(error) for error in volume_errors({"volumes": list(volumes)}, "spec", set())]


def projected(**source: Any) -> dict[str, Any]:
    return {"projected": {"sources": [source]}}


def shown(**item: Any) -> dict[str, Any]:
    return {"downwardAPI": {"items": [item]}}


def test_good_volumes_are_collected_by_name() -> None:
    names: set[str] = set()
    good = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "hostPath": {"path": "/srv"}},
        {"name": "c", **projected(configMap={"name": "m", "items": [{"key": "k", "path": "dir/file"}]})},
        {"name": "d", **shown(path="cpu", resourceFieldRef={"resource": "limits.cpu"})},
        {"name": "e", **shown(path="app", fieldRef={"fieldPath": "metadata.labels['app']"})},
    ]
    assert list(volume_errors({"volumes": good}, "spec", names)) == []
    assert names == {"a", "b", "c", "d", "e"}


def test_a_name_is_used_once_and_that_of_a_bad_volume_is_not_collected() -> None:
    names: set[str] = set()
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}, {"name": "b"}]
    assert [str(error) for error in volume_errors({"volumes": volumes}, "spec", names)] == [
        'spec.volumes[1].name: Duplicate value: "a"',
        "spec.volumes[2]: Required value: must specify a volume type",
    ]
    assert names == {"a"}


def test_a_volume_has_a_name() -> None:
    assert errors({"emptyDir": {}}) == [f"{AT}.name: Required value"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param({"hostPath": {}}, ".hostPath.path: Required value", id="no path"),
        pytest.param({"secret": {}}, ".secret.secretName: Required value", id="no Secret"),
        pytest.param({"configMap": {}}, ".configMap.name: Required value", id="no ConfigMap"),
        pytest.param(
            {"configMap": {"name": "m", "items": [{"path": "a"}]}},
            ".configMap.items[0].key: Required value",
            id="no key",
        ),
        pytest.param(
            {"configMap": {"name": "m", "items": [{"key": "a"}]}},
            ".configMap.items[0].path: Required value",
            id="no file",
        ),
        pytest.param(
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "a/../b"}]}},
            ".configMap.items[0].path: Invalid value: \"a/../b\": must not contain '..'",
            id="a file outside",
        ),
        pytest.param(
            projected(secret={"items": []}), ".projected.sources[0].secret.name: Required value", id="projected Secret"
        ),
        pytest.param(
            projected(configMap={"name": "m", "items": [{"key": "a", "path": "/x"}]}),
            '.projected.sources[0].configMap.items[0].path: Invalid value: "/x": must be a relative path',
            id="projected file outside",
        ),
        pytest.param(
            projected(**shown(path="..x", fieldRef={"fieldPath": "metadata.name"})),
            ".projected.sources[0].downwardAPI.path: Invalid value: \"..x\": must not start with '..'",
            id="projected field",
        ),
        pytest.param(
            shown(fieldRef={"fieldPath": "metadata.uid"}), ".downwardAPI.path: Required value", id="field, no file"
        ),
        pytest.param(
            shown(path="a", fieldRef={}), ".downwardAPI.fieldRef.fieldPath: Required value", id="file, no field"
        ),
        pytest.param(
            shown(path="a", fieldRef={"fieldPath": "spec.nodeName"}),
            '.downwardAPI.fieldRef.fieldPath: Invalid value: "spec.nodeName": '
            "error converting fieldPath: field label not supported: spec.nodeName",
            id="a field that files cannot show",
        ),
        pytest.param(
            shown(path="a"),
            ".downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            id="neither field nor resource",
        ),
    ],
)
def test_a_source_is_complete_and_stays_inside(source: dict[str, Any], says: str) -> None:
    assert errors({"name": "v", **source}) == [AT + says]
