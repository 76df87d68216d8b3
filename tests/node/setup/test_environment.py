"""Does a container find in its environment what a kubelet would put there?"""

import base64
import tracemalloc
from typing import Any

import pytest

from pykueue.base.units import parse_quantity
from pykueue.node.setup.environment import (
    ConfigError,
    Holdings,
    Source,
    command_line,
    environment,
    expanded,
    held,
    sources_of,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {"app": "x"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "3", "quote": 'a "b"'},
    },
    "spec": {"nodeName": "here", "serviceAccountName": "default", "containers": []},
}
NODE = {"cpu": parse_quantity("8"), "memory": parse_quantity("16Gi")}
HOLDINGS: Holdings = {
    Source("ConfigMap", "settings"): {"rate": b"0.1", "bad=key": b"x"},
    Source("Secret", "keys"): {"token": b"hush"},
    Source("ConfigMap", "missing"): None,
    Source("Secret", "missing"): None,
}


def made(*variables: dict[str, Any], **container: Any) -> dict[str, str]:
    return environment(POD, {"env": list(variables), **container}, HOLDINGS, node=NODE, host="127.0.0.1")


def taken(**origin: Any) -> dict[str, Any]:
    return {"name": "V", "valueFrom": origin}


def test_values_see_what_comes_before_them() -> None:
    assert made(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2$(C)$$(A)"},
        {"name": "C", "value": "$(B)"},
        {"name": "EMPTY"},
    ) == {"A": "1", "B": "12$(C)$(A)", "C": "12$(C)$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "3"),
        ("spec.nodeName", "here"),
        ("spec.serviceAccountName", "default"),
        ("status.hostIP", "127.0.0.1"),
        ("status.podIP", "127.0.0.1"),
        ("metadata.labels", 'app="x"'),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert made(taken(fieldRef={"fieldPath": path})) == {"V": value}


def test_a_field_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.secret"):
        made(taken(fieldRef={"fieldPath": "spec.secret"}))


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        pytest.param({"resource": "limits.memory", "divisor": "1Mi"}, "256", id="in units of the divisor"),
        pytest.param({"resource": "limits.memory"}, str(256 << 20), id="in bytes"),
        pytest.param({"resource": "requests.cpu"}, "1", id="rounded up"),
        pytest.param({"resource": "requests.cpu", "divisor": "1m"}, "250", id="in thousandths"),
        pytest.param({"resource": "limits.cpu"}, "8", id="no limit but the node's"),
        pytest.param({"resource": "requests.memory"}, "0", id="not asked for"),
    ],
)
def test_amounts_of_the_container(reference: dict[str, str], value: str) -> None:
    resources = {"limits": {"memory": "256Mi"}, "requests": {"cpu": "250m"}}
    assert made(taken(resourceFieldRef=reference), resources=resources) == {"V": value}


def test_config_maps_and_secrets() -> None:
    assert made(taken(configMapKeyRef={"name": "settings", "key": "rate"})) == {"V": "0.1"}
    assert made(taken(secretKeyRef={"name": "keys", "key": "token"})) == {"V": "hush"}
    assert made(
        {"name": "rate", "value": "mine"},
        envFrom=[{"configMapRef": {"name": "settings"}}, {"prefix": "P_", "secretRef": {"name": "keys"}}],
    ) == {"rate": "mine", "P_token": "hush"}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"env": [taken(configMapKeyRef={"name": "missing", "key": "k"})]}, 'configmap "missing" not found'),
        ({"env": [taken(secretKeyRef={"name": "missing", "key": "k"})]}, 'secret "missing" not found'),
        (
            {"env": [taken(configMapKeyRef={"name": "settings", "key": "k"})]},
            "couldn't find key k in ConfigMap n/settings",
        ),
        ({"env": [taken(secretKeyRef={"name": "keys", "key": "k"})]}, "couldn't find key k in Secret n/keys"),
        ({"envFrom": [{"configMapRef": {"name": "missing"}}]}, 'configmap "missing" not found'),
        ({"envFrom": [{"secretRef": {"name": "missing"}}]}, 'secret "missing" not found'),
    ],
)
def test_what_is_missing_is_said_as_a_kubelet_does(container: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        environment(POD, container, HOLDINGS, node=NODE, host="")
    assert str(caught.value) == message


def test_what_is_optional_may_be_missing() -> None:
    assert (
        made(
            taken(configMapKeyRef={"name": "missing", "key": "k", "optional": True}),
            taken(secretKeyRef={"name": "keys", "key": "none", "optional": True}),
            envFrom=[{"configMapRef": {"name": "missing", "optional": True}}],
        )
        == {}
    )


def test_the_sources_of_a_container() -> None:
    container = {
        "env": [taken(configMapKeyRef={"name": "a", "key": "k"}), taken(secretKeyRef={"name": "b", "key": "k"})],
        "envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "d"}}],
    }
    assert sources_of(container) == {
        Source("ConfigMap", "a"),
        Source("Secret", "b"),
        Source("ConfigMap", "c"),
        Source("Secret", "d"),
    }


def test_what_config_maps_and_secrets_hold() -> None:
    encoded = base64.b64encode(b"\xff\0").decode()
    assert held({"kind": "Secret", "data": {"k": encoded, "bad": "*"}}) == {"k": b"\xff\0", "bad": b""}
    assert held({"kind": "ConfigMap", "data": {"k": "v"}, "binaryData": {"b": encoded}}) == {"k": b"v", "b": b"\xff\0"}


def test_the_command_line_is_filled_in() -> None:
    container = {"command": ["run", "$(A)"], "args": ["--x=$(A)", "$$(A)", "$(B)", "$HOME"]}
    assert command_line(container, {"A": "1"}) == ("run", "1", "--x=1", "$(A)", "$(B)", "$HOME")
    assert command_line({"args": ["x"]}, {}) == ()


def test_odd_references_stay_as_they_are() -> None:
    assert expanded("$( $() $", {"": "x"}) == "$( x $"
    assert expanded("100%", {}) == "100%"


def test_variables_that_double_are_refused_before_they_fill_the_memory() -> None:
    doubling = [{"name": "E0", "value": "x" * 100}]
    doubling += [{"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})"} for n in range(1, 60)]
    with pytest.raises(ConfigError, match="longer than 6 MiB after expansion"):
        environment({}, {"env": doubling}, {}, node={}, host="")


BIG: Holdings = {Source("ConfigMap", "big"): {"k": b"x" * 1_000_000}}


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(
            {
                "env": [
                    {"name": f"E{n}", "valueFrom": {"configMapKeyRef": {"name": "big", "key": "k"}}} for n in range(150)
                ]
            },
            id="keys",
        ),
        pytest.param(
            {"envFrom": [{"prefix": f"P{n}", "configMapRef": {"name": "big"}} for n in range(150)]}, id="bundles"
        ),
        pytest.param({"envFrom": [{"prefix": "x" * 10_000_000, "configMapRef": {"name": "big"}}]}, id="a prefix"),
        pytest.param({"env": [{"name": f"{n}" * 1000, "value": "x"} for n in range(5000)]}, id="names"),
        pytest.param(
            {
                "env": [
                    {"name": f"E{n}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}
                    for n in range(100)
                ]
            },
            id="fields",
        ),
    ],
)
def test_everything_in_an_environment_counts(container: dict[str, Any]) -> None:
    pod: Any = {"metadata": {"annotations": {"long": "x" * 200_000}}}
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match="longer than 6 MiB after expansion"):
            environment(pod, container, BIG, node={}, host="")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_variables_of_one_key_share_its_value() -> None:
    variables = [{"name": f"E{n}", "valueFrom": {"configMapKeyRef": {"name": "big", "key": "k"}}} for n in range(3)]
    found = environment({}, {"env": variables}, BIG, node={}, host="")
    assert found["E0"] is found["E1"] is found["E2"]


def test_arguments_that_repeat_a_long_variable_are_refused() -> None:
    container = {"command": ["echo"], "args": ["$(LONG)"] * 100}
    with pytest.raises(ConfigError, match="longer than 6 MiB after expansion"):
        command_line(container, {"LONG": "x" * 100_000})
