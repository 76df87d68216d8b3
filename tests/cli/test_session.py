"""A question to a server, answered or refused with a sentence."""

from pathlib import Path

import msgspec
import pytest

from pykueue.apiserver.auth.kubeconfigs import kubeconfig, write
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
    assert "`pykueue user rotate NAME`" in explained(unauthorized, TARGET), "a file that cannot be read names nobody"
    denied = DeniedError("list jobs.batch", 403, "Forbidden", "user alice may not list jobs")
    assert explained(denied, TARGET) == "https://127.0.0.1:9: list jobs.batch: user alice may not list jobs"
    missing = NotFoundError("get jobs.batch lab/x", 404, "NotFound", "not found")
    assert "if the server is not running" not in explained(missing, TARGET)
    lost = UnansweredError("get jobs.batch lab/x", 0, "ConnectionLost", "reset")
    assert "if the server is not running" in explained(lost, TARGET)


def test_rejected_credentials_name_their_user_and_whether_they_expired(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    write(file, kubeconfig("https://127.0.0.1:9", b"", user="guest", token="t"))
    target = msgspec.structs.replace(TARGET, files=(str(file),))
    rejected = DeniedError("list jobs.batch", 401, "Unauthorized", "Unauthorized")
    assert explained(rejected, target) == (
        f"{file}: the server rejected these credentials; ask an administrator to run `pykueue user rotate guest`, or "
        "`pykueue user add guest` if that user was removed"
    )
    said = "Unauthorized: the credentials of guest expired at 2027-01-15T08:01:00Z"
    assert explained(DeniedError("list jobs.batch", 401, "Unauthorized", said), target) == (
        f"{file}: the credentials of guest expired at 2027-01-15T08:01:00Z; ask an administrator to run "
        "`pykueue user rotate guest --expires 30d`"
    )
