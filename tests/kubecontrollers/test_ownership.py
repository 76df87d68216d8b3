"""Is it known who belongs to whom, and who is worth a look?"""

import msgspec

from pykueue.api.core import OwnerReference
from pykueue.kubecontrollers.ownership import ALIVE_MAX, Metadata, Ownership, read_metadata, without


def thing(uid: str, *owners: str, deleted: bool = False, finalizers: tuple[str, ...] = ()) -> Metadata:
    references = tuple(OwnerReference("v1", "Kind", owner, owner, None, True) for owner in owners)
    return Metadata(uid, "ns", uid, "1", "now" if deleted else None, finalizers, references)


def known(*things: Metadata) -> Ownership:
    ownership = Ownership()
    for one in things:
        assert list(ownership.seen(one.uid, one)) == []
    return ownership


def test_everything_is_listed_before_an_owner_is_missed() -> None:
    ownership = known(thing("pod", "job"), thing("lost", "nobody"), thing("job"))
    assert ownership.completed() == ["lost"]


def test_what_an_owner_waits_for_is_looked_at_once_everything_is_listed() -> None:
    ownership = Ownership()
    assert list(ownership.seen("job", thing("job", deleted=True, finalizers=("foregroundDeletion",)))) == ["job"]
    assert list(ownership.seen("pod", thing("pod", "job"))) == []
    assert ownership.completed() == ["job", "pod"]


def test_dependents_of_what_goes_are_looked_at() -> None:
    ownership = known(thing("job"), thing("a", "job"), thing("b", "job"))
    ownership.completed()
    assert sorted(ownership.gone("job", thing("job"))) == ["a", "b"]
    assert ownership.dependents == {}


def test_what_comes_after_its_owner_went_is_looked_at() -> None:
    ownership = known(thing("job"))
    ownership.completed()
    list(ownership.gone("job", thing("job")))
    assert list(ownership.seen("pod", thing("pod", "job"))) == ["pod"]


def test_an_owner_that_waits_is_looked_at_when_a_dependent_goes_or_is_let_go() -> None:
    ownership = known(thing("job"), thing("a", "job"), thing("b", "job"))
    ownership.completed()
    waiting = thing("job", deleted=True, finalizers=("foregroundDeletion",))
    assert sorted(ownership.seen("job", waiting)) == ["a", "b", "job"]
    assert list(ownership.seen("job", waiting)) == ["job"]
    assert list(ownership.gone("a", thing("a", "job"))) == ["job"]
    assert list(ownership.seen("b", thing("b"))) == ["job"]
    assert ownership.of("job") == ()


def test_an_owner_that_leaves_what_it_has_is_looked_at() -> None:
    ownership = known(thing("job"))
    assert list(ownership.seen("job", thing("job", deleted=True, finalizers=("orphan",)))) == ["job"]


def test_owners_that_an_object_no_longer_names_are_forgotten() -> None:
    ownership = known(thing("job"), thing("pod", "job"))
    ownership.completed()
    for number in range(50):
        list(ownership.seen("pod", thing("pod", "job", f"made-up-{number}")))
    assert ownership.of("job") == ("pod",)
    assert len(ownership.dependents) == 2
    list(ownership.seen("pod", thing("pod")))
    assert (ownership.dependents, ownership.owners) == ({}, {})
    list(ownership.seen("pod", thing("pod", "a", "b")))
    list(ownership.gone("pod", thing("pod")))
    assert (ownership.dependents, ownership.owners) == ({}, {})


def test_an_owner_that_went_is_missed_again_when_all_is_listed_again() -> None:
    ownership = known(thing("job"), thing("pod", "job"))
    ownership.completed()
    list(ownership.gone("job", thing("job")))
    ownership.doubt()
    list(ownership.seen("pod", thing("pod", "job")))
    assert ownership.completed() == ["pod"]


def test_many_dependents() -> None:
    ownership = known(thing("job"), *(thing(f"pod-{number}", "job") for number in range(20)))
    assert len(ownership.of("job")) == 20
    for number in range(20):
        list(ownership.gone(f"pod-{number}", thing(f"pod-{number}", "job")))
    assert ownership.dependents == {}


def test_what_is_alive_is_not_remembered_for_ever() -> None:
    ownership = Ownership()
    ownership.completed()
    for number in range(ALIVE_MAX + 10):
        ownership.remember(str(number))
    assert len(ownership.alive) == ALIVE_MAX
    assert not ownership.is_alive("9")
    assert ownership.is_alive("10")


def test_without() -> None:
    references = thing("pod", "a", "b").owner_references
    assert [one.uid for one in without(references, ("a",))] == ["b"]
    assert msgspec.to_builtins(references[0])["blockOwnerDeletion"] is True


def test_nulls_stand_for_absent_fields() -> None:
    raw = b'{"metadata": {"name": "x", "finalizers": null, "ownerReferences": null, "uid": "u"}}'
    assert read_metadata(raw) == Metadata("x", uid="u")
