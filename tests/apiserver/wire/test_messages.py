"""What goes in, and what comes out? Calls from their target, and answers with their headers."""

from pykueue.apiserver.wire.messages import Response, error_response, object_response, request, with_warnings
from pykueue.apiserver.wire.statuserrors import too_many, unauthorized


def test_a_call_from_its_target() -> None:
    call = request("GET", "/a%20b?x=1&x=2&y=%26", b"z", {"Accept": "q"})
    assert (call.path, call.query, call.body) == ("/a b", {"x": ["1", "2"], "y": ["&"]}, b"z")
    assert (call.header("accept"), call.header("absent")) == ("q", "")


def test_warnings_cannot_break_out_of_their_header() -> None:
    response = with_warnings(Response(200), ['say "x"', "two\r\nlines: €", "back\\slash"])
    assert response.headers == (
        ("Warning", '299 - "say \\"x\\""'),
        ("Warning", '299 - "two  lines:  "'),
        ("Warning", '299 - "back\\\\slash"'),
    )
    assert with_warnings(response, []) is response


def test_a_refusal_says_when_to_come_back_and_how_to_prove_oneself() -> None:
    assert ("Retry-After", "7") in error_response(too_many("busy", 7)).headers
    assert error_response(unauthorized()).headers[-1] == ("WWW-Authenticate", 'Bearer realm="pykueue"')


def test_an_answer_ends_with_a_line() -> None:
    assert object_response(200, {"a": 1}).body == b'{"a":1}\n'
