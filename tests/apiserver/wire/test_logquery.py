"""Which part of a container's output is wanted? The parameters of `kubectl logs`."""

import pytest

from pykueue.api.core import Json, Tree
from pykueue.apiserver.wire.logquery import container_of, log_query
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.base.units import MICROS, Instant
from pykueue.kube.logs import LogQuery

NOW = Instant(1_800_000_000 * MICROS)


def pod(*names: str, init: tuple[str, ...] = ()) -> Tree:
    containers: list[Json] = [{"name": name} for name in names]
    first: list[Json] = [{"name": name} for name in init]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": first}}


def test_the_parameters_are_read() -> None:
    query = {
        "container": ["c"],
        "follow": ["true"],
        "previous": ["false"],
        "timestamps": ["true"],
        "sinceSeconds": ["60"],
        "tailLines": ["0"],
        "limitBytes": ["10"],
    }
    since = Instant(NOW - 60 * MICROS)
    wanted = LogQuery("c", follow=True, timestamps=True, since=since, tail=0, limit_bytes=10)
    assert log_query(query, pod("c"), NOW) == wanted
    assert log_query({}, pod("c"), NOW) == LogQuery("c")
    moment = log_query({"sinceTime": ["2027-01-15T08:00:00Z"]}, pod("c"), NOW).since
    assert moment == NOW
    for long_ago in ({"sinceSeconds": ["9223372036"]}, {"sinceTime": ["0001-01-01T00:00:00+23:59"]}):
        assert log_query(long_ago, pod("c"), NOW).since == 0


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        (
            {"tailLines": "-1"},
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or',
        ),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "5", "sinceTime": "x"}, 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"),
        ({"tailLines": "all"}, 400, "invalid syntax"),
        ({"sinceTime": "yesterday"}, 400, "parsing time"),
        ({"sinceSeconds": "9223372036854775807"}, 400, "is too long ago; use at most 9223372036, or omit it"),
        ({"container": "x"}, 400, "container x is not valid for pod p"),
    ],
)
def test_what_makes_no_sense_is_refused(query: dict[str, str], code: int, says: str) -> None:
    with pytest.raises(StatusError) as refused:
        log_query({name: [value] for name, value in query.items()}, pod("c"), NOW)
    assert refused.value.code == code
    assert says in refused.value.message


def test_one_of_several_containers_must_be_named() -> None:
    assert container_of(pod("a", "b", init=("i",)), "i") == "i"
    with pytest.raises(StatusError) as refused:
        container_of(pod("a", "b", init=("i",)), "")
    assert refused.value.message == (
        "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]"
    )
