"""Is work in steps done at once, with its result?"""

from collections.abc import Generator

from pykueue.base.steps import at_once


def test_all_steps_are_taken_and_the_result_is_returned() -> None:
    taken: list[int] = []

    def work() -> Generator[None, None, str]:
        for number in range(3):
            taken.append(number)
            yield
        return "done"

    assert at_once(work()) == "done"
    assert taken == [0, 1, 2]
