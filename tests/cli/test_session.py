"""A question to a server, answered or refused with a sentence."""

import pytest

from pykueue.cli.session import asked, explained
from pykueue.cli.target import Target
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, Fixed
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import LOCAL_QUEUES, DeniedError, NotFoundError, UnansweredError

TARGET = Target(Connection("https://127.0.0.1:9", Fixed(Credential())), "a test", ("some.kubeconfig",), local=True)
"""Nothing listens on the discard port."""


def test_the_answer_is_returned() -> None:
    async def question(kube: HttpKube) -> str:
        return kube.connection.server

    assert asked(TARGET, "jobs", question) == "https://127.0.0.1:9"


@pytest.mark.parametrize("code", [1, 2])
def test_a_server_that_does_not_respond_is_a_sentence_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], code: int
) -> None:
    with pytest.raises(SystemExit) as stopped:
        asked(TARGET, "jobs", lambda kube: kube.get(LOCAL_QUEUES, "main", "default"), code=code)
    assert stopped.value.code == code
    said = capsys.readouterr().err
    assert said.startswith("https://127.0.0.1:9: get localqueues.kueue.x-k8s.io default/main: ")
    assert "if the server is not running, ask its administrator" in said


def test_each_error_says_what_to_do() -> None:
    unauthorized = DeniedError("list jobs.batch", 401, "Unauthorized", "Unauthorized")
    assert explained(unauthorized, TARGET).startswith("some.kubeconfig: the server rejected these credentials; ask ")
    denied = DeniedError("list jobs.batch", 403, "Forbidden", "user alice may not list jobs")
    assert explained(denied, TARGET) == "https://127.0.0.1:9: list jobs.batch: user alice may not list jobs"
    missing = NotFoundError("get jobs.batch lab/x", 404, "NotFound", "not found")
    assert "if the server is not running" not in explained(missing, TARGET)
    lost = UnansweredError("get jobs.batch lab/x", 0, "ConnectionLost", "reset")
    assert "if the server is not running" in explained(lost, TARGET)
