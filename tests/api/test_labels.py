import pytest

from pykueue.api.labels import (
    ANNOTATIONS_BYTES_MAX,
    annotations_errors,
    dns_label,
    dns_subdomain,
    domain_path_errors,
    label_value,
    labels_errors,
    qualified_name,
    selector_errors,
)

NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param("cpu", (), id="a bare name"),
        pytest.param("nvidia.com/gpu", (), id="a name below a domain"),
        pytest.param("A_b.c-9", (), id="every character that is allowed"),
        pytest.param("a" * 63, (), id="as long as it gets"),
        pytest.param("a" * 64, ("name part must be no more than 63 bytes",), id="one byte too long"),
        pytest.param("", ("name part must be non-empty", f"name part {NAME}"), id="nothing"),
        pytest.param("/x", ("prefix part must be non-empty",), id="no domain before the slash"),
        pytest.param("a.b/", ("name part must be non-empty", f"name part {NAME}"), id="no name after the slash"),
        pytest.param("A/x", (f"prefix part {SUBDOMAIN}",), id="a capital in the domain"),
        pytest.param("-x", (f"name part {NAME}",), id="begins with a dash"),
        pytest.param("x\n", (f"name part {NAME}",), id="ends in a newline"),
        pytest.param(
            "a/b/c",
            (f"a qualified name {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",),
            id="two slashes",
        ),
    ],
)
def test_qualified_names(text: str, messages: tuple[str, ...]) -> None:
    assert qualified_name(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param("", (), id="nothing"),
        pytest.param("v1.2_a-b", (), id="every character that is allowed"),
        pytest.param("a b", (VALUE,), id="a space"),
        pytest.param("a" * 63, (), id="as long as it gets"),
        pytest.param("a" * 64, ("must be no more than 63 bytes",), id="one byte too long"),
        pytest.param("ä" * 32, ("must be no more than 63 bytes", VALUE), id="bytes count, not characters"),
        pytest.param("\ud800", (VALUE,), id="half a surrogate pair"),
    ],
)
def test_label_values(text: str, messages: tuple[str, ...]) -> None:
    assert label_value(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param("my-name", (), id="a name"),
        pytest.param("my.name", (LABEL,), id="a dot"),
        pytest.param("a" * 63, (), id="as long as it gets"),
        pytest.param("a" * 64, ("must be no more than 63 bytes",), id="one byte too long"),
    ],
)
def test_dns_labels(text: str, messages: tuple[str, ...]) -> None:
    assert dns_label(text) == messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param("a.b-c.d", (), id="a domain"),
        pytest.param("a..b", (SUBDOMAIN,), id="two dots"),
        pytest.param("a" * 253, (), id="as long as it gets"),
        pytest.param("", (SUBDOMAIN,), id="nothing"),
        pytest.param("a" * 254, ("must be no more than 253 bytes",), id="one byte too long"),
    ],
)
def test_dns_subdomains(text: str, messages: tuple[str, ...]) -> None:
    assert dns_subdomain(text) == messages


@pytest.mark.parametrize(
    ("labels", "errors"),
    [
        pytest.param(None, [], id="no labels"),
        pytest.param({"a": "b"}, [], id="a label"),
        pytest.param({"@": "b"}, [f'x: Invalid value: "@": name part {NAME}'], id="a bad key"),
        pytest.param({"a": "@"}, [f'x: Invalid value: "@": {VALUE}'], id="a bad value"),
        pytest.param({"a": 3}, [], id="a number is the schema's business"),
        pytest.param(
            {"b": "@", "a": "!"},
            [f'x: Invalid value: "!": {VALUE}', f'x: Invalid value: "@": {VALUE}'],
            id="by key, whatever their order",
        ),
    ],
)
def test_labels(labels: object, errors: list[str]) -> None:
    assert [str(error) for error in labels_errors(labels, "x")] == errors


@pytest.mark.parametrize(
    ("annotations", "errors"),
    [
        pytest.param({"Example.COM/a": "any thing"}, [], id="capitals in the domain, anything in the value"),
        pytest.param({"a b": ""}, [f'x: Invalid value: "a b": name part {NAME}'], id="a bad key"),
        pytest.param({"a": "v" * (ANNOTATIONS_BYTES_MAX - 1)}, [], id="as large as they get"),
        pytest.param(
            {"a": "v" * ANNOTATIONS_BYTES_MAX},
            ["x: Too long: may not be more than 262144 bytes"],
            id="one byte too large together",
        ),
    ],
)
def test_annotations(annotations: object, errors: list[str]) -> None:
    assert [str(error) for error in annotations_errors(annotations, "x")] == errors


def expression(**requirement: object) -> dict[str, object]:
    return {"matchExpressions": [{"key": "team", **requirement}]}


@pytest.mark.parametrize(
    ("selector", "errors"),
    [
        pytest.param(None, [], id="no selector"),
        pytest.param({}, [], id="everything"),
        pytest.param({"matchLabels": {"a": "@"}}, [f'x.matchLabels: Invalid value: "@": {VALUE}'], id="a bad label"),
        pytest.param(expression(operator="In", values=["a"]), [], id="one of a list"),
        pytest.param(
            expression(operator="NotIn"),
            ["x.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
            id="one of nothing",
        ),
        pytest.param(
            expression(operator="Exists", values=["a"]),
            [
                "x.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or "
                "'DoesNotExist'"
            ],
            id="there, with a value",
        ),
        pytest.param(
            expression(operator="Equals", values=["a"]),
            ['x.matchExpressions[0].operator: Invalid value: "Equals": not a valid selector operator'],
            id="an unknown operator",
        ),
        pytest.param(
            expression(key="@", operator="Exists"),
            [f'x.matchExpressions[0].key: Invalid value: "@": name part {NAME}'],
            id="a bad key",
        ),
        pytest.param(
            expression(operator="In", values=["a", "@"]),
            [f'x.matchExpressions[0].values[1]: Invalid value: "@": {VALUE}'],
            id="a bad value in the list",
        ),
    ],
)
def test_selectors(selector: object, errors: list[str]) -> None:
    assert [str(error) for error in selector_errors(selector, "x")] == errors


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param("acme.io/foo/bar", [], id="a path below a domain"),
        pytest.param("", ["x: Required value"], id="nothing"),
        pytest.param(
            "foo",
            ['x: Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'],
            id="no domain",
        ),
        pytest.param(
            "acme.io/",
            ['x: Invalid value: "acme.io/": must be a domain-prefixed path (such as "acme.io/foo")'],
            id="no path",
        ),
        pytest.param("a b/c", [f'x: Invalid value: "a b": {SUBDOMAIN}'], id="a space in the domain"),
        pytest.param(
            "a/b c",
            [
                'x: Invalid value: "b c": Invalid path (regex used for validation is '
                r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
            ],
            id="a space in the path",
        ),
    ],
)
def test_domain_paths(text: str, errors: list[str]) -> None:
    assert [str(error) for error in domain_path_errors(text, "x")] == errors
