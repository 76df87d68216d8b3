"""Which exit codes do shells give?"""

import pytest

from pykueue.api.exitcodes import shell_code


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        pytest.param("StartError", 'exec: "x": executable file not found in $PATH', 127, id="no such command"),
        pytest.param("StartError", 'exec: "./x": permission denied', 126, id="not executable"),
        pytest.param("StartError", "no such directory", 128, id="another error"),
        pytest.param("Error", 'exec: "x": executable file not found in $PATH', 128, id="the message of a command"),
    ],
)
def test_a_command_that_does_not_start(reason: str, message: str, code: int) -> None:
    assert shell_code(128, reason, message) == code
