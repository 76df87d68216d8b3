"""What does `waitForPodsReady` mean to the engine, and what does leaving it out?"""

import pytest

from pykueue.api.config.file import read_configuration
from pykueue.base.units import Seconds
from pykueue.bridge.options import options
from pykueue.engine.model import PodsReadyOptions, Timestamp
from tests.facts import covers

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def pods_ready(text: str) -> PodsReadyOptions | None:
    """The engine's options under a configuration with these lines."""
    return options(read_configuration(HEAD + text)).pods_ready


@covers("KEP349-15")
def test_the_feature_is_on_with_half_an_hour_and_blocks_nothing() -> None:
    assert pods_ready("") == PodsReadyOptions(
        timeout=Seconds(1800),
        recovery_timeout=Seconds(1800),
        block_admission=False,
        timestamp=Timestamp.EVICTION,
        backoff_base=Seconds(60),
        backoff_max=Seconds(3600),
        backoff_limit=None,
    )


@covers("L29", "KEP349-14")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("{timeout: 7m}", 420, id="absent, it is the start timeout"),
        pytest.param("{timeout: 7m, recoveryTimeout: 3m}", 180, id="of its own"),
        pytest.param("{timeout: 7m, recoveryTimeout: 0s}", None, id="zero turns it off"),
    ],
)
def test_the_recovery_timeout(line: str, expected: int | None) -> None:
    found = pods_ready(f"waitForPodsReady: {line}\n")
    assert found is not None
    assert (found.timeout, found.recovery_timeout) == (420, expected)


@covers("KEP349-20")
def test_a_gate_turns_it_off() -> None:
    assert options(read_configuration(HEAD, feature_gates="DisableWaitForPodsReady=true")).pods_ready is None
