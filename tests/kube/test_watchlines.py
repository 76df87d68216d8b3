"""A line of a watch is cut into its type and its object, however a server writes it."""

import msgspec
import pytest

from pykueue.kube.watchlines import parted


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}', id="as servers write it"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n', id="with its newline"),
        pytest.param(b'{"object":{"metadata":{"name":"a"}},"type":"ADDED"}', id="the object first"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata":{"name":"a"}}}', id="with spaces"),
    ],
)
def test_the_type_and_the_object(line: bytes) -> None:
    assert parted(line) == ("ADDED", b'{"metadata":{"name":"a"}}')


def test_a_bookmark_and_an_error_are_decoded() -> None:
    assert parted(b'{"type":"BOOKMARK","object":{}}') == ("BOOKMARK", b"{}")
    assert parted(b'{"type":"ERROR","object":{"code":410}}') == ("ERROR", b'{"code":410}')


@pytest.mark.parametrize("line", [b"", b"{", b'{"type":"ADDED","object":{'])
def test_a_malformed_line_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        parted(line)
