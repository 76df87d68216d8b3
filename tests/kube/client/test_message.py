"""Are answers understood, whatever pieces they come in?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.kube.client.message import HEAD_MAX, Answer, MalformedError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\nhello\r\nyou!"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;name=x\r\n\r\nyou!\r\n0\r\nTrailer: x\r\n\r\n"
)
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def read(*pieces: bytes) -> tuple[Answer, bytes]:
    parts: list[bytes] = []
    answer = Answer(parts.append)
    for piece in pieces:
        answer.feed(piece)
    return answer, b"".join(parts)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(PLAIN, 200, id="with a length"),
        pytest.param(CHUNKED, 201, id="in chunks, with an extension and a trailer"),
        pytest.param(INFORMED, 200, id="after an interim answer"),
    ],
)
@given(data=st.data())
def test_an_answer_is_the_same_in_any_pieces(raw: bytes, status: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1))))
    answer, body = read(*(raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)))
    assert (answer.status, body, answer.complete, answer.lasts) == (status, b"hello\r\nyou!", True, True)


def test_a_body_without_a_length_goes_to_the_end_of_the_connection() -> None:
    answer, body = read(b"HTTP/1.1 200 OK\r\n\r\nabc", b"def")
    assert (body, answer.complete, answer.lasts) == (b"abcdef", False, False)
    assert answer.finish()


def test_a_body_cut_short_is_not_complete() -> None:
    assert not read(PLAIN[:-1])[0].finish()
    assert not read(CHUNKED[:-2])[0].finish()


@pytest.mark.parametrize(
    ("head", "lasts"),
    [
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", True, id="kept open by default"),
        pytest.param(b"HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n", False, id="closed when it says so"),
        pytest.param(b"HTTP/1.0 204 No Content\r\n\r\n", False, id="closed by an older server"),
        pytest.param(b"HTTP/1.0 204 No\r\nconnection: keep-alive\r\n\r\n", True, id="kept open by an older server"),
    ],
)
def test_a_connection_is_used_again_if_the_server_means_it(head: bytes, lasts: bool) -> None:
    answer, body = read(head)
    assert (answer.complete, answer.lasts, body) == (True, lasts, b"")


def test_headers_are_found_by_their_names_in_lower_case() -> None:
    assert (
        read(b"HTTP/1.1 429 Too Many\r\nRETRY-after:  7 \r\nContent-Length: 0\r\n\r\n")[0].headers[b"retry-after"]
        == b"7"
    )


def test_interim_answers_and_trailers_add_no_headers() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 1\r\n\r\n"
    answer, body = read(hints + CHUNKED.replace(b"Trailer: x", b"Retry-After: 2"))
    assert (answer.headers, body, answer.complete) == ({b"transfer-encoding": b"chunked"}, b"hello\r\nyou!", True)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 20x\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", id="no size of a chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", id="a negative size of a chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n", id="a size with an underscore"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", id="a chunk too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", id="more than it said"),
        pytest.param(PLAIN + PLAIN, id="a second answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", id="two lengths"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" + PLAIN, id="a switch of protocols"),
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        read(raw)


def test_a_head_without_end_is_refused() -> None:
    begins = b"HTTP/1.1 200 OK\r\n"
    with pytest.raises(MalformedError, match="the head is too long"):
        read(begins, *[b"A: %b\r\n" % (b"x" * 1019)] * (HEAD_MAX // 1024))
