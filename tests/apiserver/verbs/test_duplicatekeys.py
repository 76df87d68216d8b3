"""Is a field there twice? Where, and what is made of it."""

import pytest

from pykueue.apiserver.kinds.catalog import Catalog
from pykueue.apiserver.verbs.duplicatekeys import check_duplicates, duplicates
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.apiserver.wire.writeterms import Terms

BODY = b'{"data":{"k":"v","k":"w"}}'


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        pytest.param(b'{"a":1,"b":{"a":1}}', [], id="the same name in two objects"),
        pytest.param(b'{"a":1,"a":2,"a":3}', ["a"], id="three times"),
        pytest.param(b'{"l":[{},{"x":1,"x":2}]}', ["l[1].x"], id="in a list"),
        pytest.param(b'{"a":{"b":1},"a":{"c":1,"c":2}}', ["a", "a.c"], id="within what is there twice"),
        pytest.param(b"[1]", [], id="no object"),
        pytest.param(b"{", [], id="no JSON"),
        pytest.param(b"[" * 100_000, [], id="too deep"),
    ],
)
def test_the_paths_of_what_is_there_twice(body: bytes, paths: list[str]) -> None:
    assert duplicates(body) == paths


def test_it_is_refused_warned_of_or_passed_over_as_the_caller_wants() -> None:
    served = Catalog().find("", "v1", "configmaps")
    assert served is not None
    with pytest.raises(StatusError, match=r'strict decoding error: duplicate field "data.k"'):
        check_duplicates(BODY, {}, served, Terms(validation="Strict"))
    warned, ignored = Terms(validation="Warn"), Terms(validation="Ignore")
    check_duplicates(BODY, {}, served, warned)
    check_duplicates(BODY, {}, served, ignored)
    assert (warned.warnings, ignored.warnings) == (['duplicate field "data.k"'], [])
