"""What do the clocks of tests have in common? Their moments are their dates: nobody sets the wall clock of a test."""

from pykueue.base.units import Instant, Moment


class OneFace:
    """A clock for which a test says what `now` and `sleep_until` do, and everything else follows."""

    def now(self) -> Instant:
        raise NotImplementedError

    async def sleep_until(self, due: Instant) -> None:
        raise NotImplementedError

    def moment(self) -> Moment:
        return Moment(self.now())

    async def sleep(self, micros: int) -> None:
        await self.sleep_until(Instant(self.now() + micros))

    async def sleep_to(self, due: Moment) -> None:
        await self.sleep_until(Instant(due))
