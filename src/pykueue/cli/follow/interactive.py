"""Follow a Job with a standard input or a terminal of its own: connect ours to it once it runs."""

import asyncio
import signal
from typing import Final

from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.cli.follow.job import Following, Start
from pykueue.cli.follow.output import container_of
from pykueue.cli.follow.terminal import asked_of, attach, has_terminal
from pykueue.cli.messages import tell
from pykueue.cli.target import Target
from pykueue.kube.port import KubeError, NotFoundError, UnansweredError

SIGNALLED: Final = 128
"""What shells add to the number of a signal."""


class FollowingTerminal(Following):
    """Follows a Job, and connects our terminal or standard input to its pods."""

    def __init__(
        self, target: Target, namespace: str, *, command: str, deletes: bool = False, index: int | None = None
    ) -> None:
        super().__init__(target, namespace, command=command, deletes=deletes, index=index)
        self.attached = False
        """Whether our terminal is connected to the job."""
        self.left = 0
        """The signal by which our terminal, or the system, ends this process."""

    async def run(self, start: Start, *, failing: int) -> int:
        """Follow the Job that `start` returns; return its exit code."""
        for number in (signal.SIGHUP, signal.SIGTERM):
            # nohup ignores SIGHUP.
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self.leave, number)
        return await super().run(start, failing=failing)

    def leave(self, number: int) -> None:
        """Handle a signal that ends this process: restore the terminal first."""
        self.left = number
        self.interrupted.set()

    async def show_rest(self) -> None:
        """Show what the Job has printed so far; a terminal that is connected has shown it."""
        if not self.attached:
            await super().show_rest()

    async def stop(self) -> int:
        """End after a signal; return the exit code."""
        if self.left and self.attached:
            # The server tells an interactive job to end, unless a client attaches to it in time.
            return SIGNALLED + self.left
        code = await super().stop()
        return SIGNALLED + self.left if self.left else code

    async def output_of(self, pod: Tree) -> None:
        """Connect our terminal to a pod until it ends, or stream its output and pass standard input on."""
        asked = asked_of(pod, container_of(pod), stdin=True)
        if self.output.ending.is_set() or text(pod, "status", "phase") != "Running" or not asked.stdin:
            await super().output_of(pod)
        elif asked.tty and has_terminal():
            if not await self.converse(pod):
                await super().output_of(pod)
        else:
            feeding = asyncio.create_task(self.feed(pod))
            try:
                await super().output_of(pod)
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)

    async def feed(self, pod: Tree) -> None:
        """Pass our standard input on to a pod; its output comes from its log, from the beginning."""
        try:
            await attach(self.kube, pod, container_of(pod), output=False, quiet=True)
        except NotFoundError:
            pass
        except KubeError as error:
            tell(f"cannot pass standard input on: {error}")

    async def converse(self, pod: Tree) -> bool:
        """Connect our terminal to a pod until it ends; False if that is not possible, as after the pod has ended."""
        self.attached = True
        try:
            end = await attach(self.kube, pod, container_of(pod))
        except UnansweredError:
            raise
        except KubeError as error:
            if not isinstance(error, NotFoundError):
                tell(f"cannot attach to the job, its output follows: {error}")
            return False
        finally:
            self.attached = False
        if end.how == "closed":
            self.attached = True
            self.leave(signal.SIGHUP)
        elif end.message:
            tell(f"the connection to the job ended: {end.message}")
        return True
