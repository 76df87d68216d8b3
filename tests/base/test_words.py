"""Are members of an enumeration of texts found wherever the texts are?"""

from pykueue.api.names import WorkloadCondition
from pykueue.base.words import Word


class Colour(Word):
    RED = "red"


def test_a_member_is_hashed_and_compared_as_its_text() -> None:
    assert hash(Colour.RED) == hash("red")
    assert {"red": 1}[Colour.RED] == 1
    known: dict[str, int] = {Colour.RED: 1}
    assert known["red"] == 1


def test_the_conditions_of_workloads_are_such_texts() -> None:
    assert {"Finished": 1}.get(WorkloadCondition.FINISHED) == 1
    assert hash(WorkloadCondition.FINISHED) == hash("Finished")
