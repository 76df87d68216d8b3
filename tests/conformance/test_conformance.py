"""Does the embedded API answer as kube-apiserver does, field by field?"""

from collections.abc import Iterator

import pytest

from pykueue.api.names import Annotation
from tests.conformance.alike import Plain, differences, without_creator
from tests.conformance.exempt import EXEMPT, OVER_TLS, Exempt, unexcused
from tests.conformance.play import Server
from tests.conformance.record import recorded
from tests.conformance.servers import embedded, over_tls, real
from tests.conformance.steps import Chapter, chapters
from tests.e2e.backend import on_plane

# On the real server the chapters share a plane, so one worker takes them all.
pytestmark = pytest.mark.xdist_group("conformance")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with real() if on_plane() else embedded() as started:
        yield started


def compared(server: Server, chapter: Chapter) -> Iterator[tuple[str, str]]:
    """How the answers of a server differ from the recorded ones: the call, and a line."""
    for theirs, ours in zip(recorded(chapter), server.play(chapter), strict=True):
        # Who brought the first annotation is said there too.
        plain = {**theirs, "body": without_creator(theirs["body"])}
        for line in differences(plain, ours):
            yield theirs["what"], line


EVERY = pytest.mark.parametrize("chapter", [pytest.param(one, id=one.name) for one in chapters()])


@EVERY
def test_the_api_answers_as_kube_apiserver_was_recorded(server: Server, chapter: Chapter) -> None:
    wrong = list(unexcused(chapter.name, compared(server, chapter), () if on_plane() else EXEMPT))
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong])


@pytest.fixture(scope="module")
def distant() -> Iterator[Server]:
    with over_tls() as started:
        yield started


@EVERY
@pytest.mark.skipif(on_plane(), reason="the embedded API is asked by `make test`")
def test_it_answers_the_same_over_a_socket(distant: Server, chapter: Chapter) -> None:
    wrong = list(unexcused(chapter.name, compared(distant, chapter), OVER_TLS))
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong])


ONE = Exempt("create", "a name", r"body\.message", "it is shown here")


@pytest.mark.parametrize(
    ("found", "left"),
    [
        pytest.param([("a name", "body.message: differs")], [], id="excused"),
        pytest.param(
            [("a name", "body.message: differs"), ("a name", "code: differs")], ["a name: code: differs"], id="not it"
        ),
        pytest.param([], [r"a name: body\.message: agrees by now; take it out of EXEMPT"], id="needless"),
    ],
)
def test_only_what_is_listed_is_excused(found: list[tuple[str, str]], left: list[str]) -> None:
    assert list(unexcused("create", found, (ONE,))) == left


@pytest.mark.parametrize(
    ("theirs", "ours", "lines"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="alike"),
        pytest.param({"a": 1}, {}, ["a: missing; theirs 1"], id="missing"),
        pytest.param({}, {"a": 1}, ["a: too much; ours 1"], id="too much"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, ["a: 1 elements, theirs 2: ours [1]; theirs [1, 2]"], id="shorter"),
        pytest.param({"a": [1]}, {"a": ["1"]}, ["a.0: ours '1'; theirs 1"], id="of another type"),
        pytest.param({"a": True}, {"a": 1}, ["a: ours 1; theirs True"], id="a truth is no number"),
    ],
)
def test_a_difference_is_told_with_its_place(theirs: object, ours: object, lines: list[str]) -> None:
    assert list(differences(theirs, ours)) == lines


def test_what_a_server_makes_up_is_compared_by_what_it_stands_for() -> None:
    uid, other = (f"{digit * 8}-2222-3333-4444-555555555555" for digit in "ab")
    answers = [
        {"metadata": {"name": "a-x2bcd", "generateName": "a-", "uid": uid, "resourceVersion": "7"}},
        {"metadata": {"name": "a-x2bcd", "generateName": "a-", "uid": other, "resourceVersion": "7"}},
        {"metadata": {"resourceVersion": "7"}, "items": []},
        {"message": f'"a-x2bcd" is {uid}', "at": "2026-11-15T20:00:00Z", "to": "2026-11-15T20:00:00.5Z"},
        {"metadata": {"annotations": {Annotation.CREATOR: "me"}}, "at": "2026-01-02T03:04:05Z"},
    ]
    plain = Plain()
    plain.asked('{"metadata": {"generateName": "a-"}}')
    assert [plain.answer({"body": body})["body"] for body in answers] == [
        {
            "metadata": {
                "name": "a-(made up)",
                "generateName": "a-",
                "uid": "(uid 1)",
                "resourceVersion": "(version 1)",
            }
        },
        {
            "metadata": {
                "name": "a-(made up)",
                "generateName": "a-",
                "uid": "(uid 2)",
                "resourceVersion": "(version 1)",
            }
        },
        {"metadata": {"resourceVersion": "(a version)"}, "items": []},
        {"message": '"a-(made up)" is (uid 1)', "at": "(a time)", "to": "(a fine time)"},
        {"at": "2026-01-02T03:04:05Z"},
    ]


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        pytest.param(rf"{{\"a\":1,\"annotations\":{{\"{Annotation.CREATOR}\":\"me\"}}}}", r"{\"a\":1}", id="alone"),
        pytest.param(
            rf"{{\"annotations\":{{\"{Annotation.CREATOR}\":\"me\",\"x\":\"y\"}}}}",
            r"{\"annotations\":{\"x\":\"y\"}}",
            id="first",
        ),
        pytest.param(r"{\"f:annotations\":{\".\":{},\"f:x\":{}}}", r"{\"f:annotations\":{\"f:x\":{}}}", id="managed"),
    ],
)
def test_who_created_an_object_is_no_difference_in_a_message_that_shows_it(shown: str, plain: str) -> None:
    assert without_creator({"message": shown}) == {"message": plain}
