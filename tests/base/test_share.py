"""Is what many have kept once, and not for ever?"""

from pykueue.base.share import Mappings, Pool


def test_equal_values_are_one() -> None:
    pool = Pool[tuple[str, ...]]()
    first = pool.same(tuple("ab"))
    assert pool.same(tuple("ab")) is first
    assert pool.same(("a", "c")) == ("a", "c")


def test_equal_mappings_are_one_whatever_their_order() -> None:
    pool = Mappings()
    first = pool.same({"a": "1", "b": "2"})
    assert pool.same({"b": "2", "a": "1"}) is first
    assert pool.same({"a": "1"}) == {"a": "1"}


def test_a_pool_of_too_many_begins_anew() -> None:
    pool, mappings = Pool[int](most=2), Mappings(most=2)
    for number in range(5):
        assert pool.same(number) == number
        assert mappings.same({"n": str(number)}) == {"n": str(number)}
    assert len(pool.known) <= 2
    assert len(mappings.known) <= 2
