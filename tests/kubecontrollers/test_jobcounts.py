"""Is every pod counted exactly once, though the controller dies between any two of its writes?"""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import MICROS, Instant
from pykueue.kubecontrollers.jobplan import NO_BACKOFF, Backoff, plan
from pykueue.kubecontrollers.jobviews import JobSpec, JobStatus, Pod, Uncounted, Work

START = Instant(1_800_000_000 * MICROS)
COMPLETIONS = 4


class World:
    """What is stored of one Job and its pods, and what really happened to them."""

    def __init__(self, *, indexed: bool, patient: bool) -> None:
        self.spec = JobSpec(
            parallelism=3,
            completions=COMPLETIONS,
            completion_mode="Indexed" if indexed else "NonIndexed",
            backoff_limit=1000,
            pod_replacement_policy="Failed" if patient else None,
        )
        self.status = JobStatus()
        self.pods: dict[str, Pod] = {}
        self.now = START
        self.backoff = NO_BACKOFF
        self.made = 0
        self.ended: set[str] = set()
        """Pods that came to an end, or began to, while they were ours to count."""
        self.succeeded: set[str] = set()
        """Those of them that nobody had deleted before they succeeded."""
        self.failed: set[str] = set()
        """Those of them that nobody had deleted before they failed."""

    def over(self) -> bool:
        return self.status.holds("Complete") is not None

    def store(self, pod: Pod) -> None:
        """What the server does with a pod that changed."""
        if pod.deleting and not pod.tracked and (pod.over or not pod.node):
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod

    def act(self, writes: int) -> None:
        """Carry out a plan, and die after so many writes."""
        if self.over():
            for pod in [pod for pod in self.pods.values() if pod.tracked][:writes]:
                self.store(msgspec.structs.replace(pod, tracked=False))
            return
        work = Work("job", self.spec, self.status)
        step = plan(work, tuple(self.pods.values()), self.now, self.backoff)
        for new in step.create:
            if not (writes := writes - 1):
                return
            self.made += 1
            uid = f"pod-{self.made}"
            self.pods[uid] = Pod("ns", uid, 1, uid, "job", "job", tracked=True, index=new.index, node="here")
        for pod in step.delete:
            if not (writes := writes - 1):
                return
            self.store(msgspec.structs.replace(self.pods[pod.uid], tracked=not step.removes_finalizer, deleting=True))
        if step.status is not None:
            if not (writes := writes - 1):
                return
            self.status, self.backoff = step.status, step.backoff
        for pod in step.release:
            if not (writes := writes - 1):
                return
            if pod.uid in self.pods:
                self.store(msgspec.structs.replace(self.pods[pod.uid], tracked=False))

    def end(self, number: int, phase: str) -> None:
        """A pod ends."""
        running = [pod for pod in self.pods.values() if not pod.over]
        if running:
            pod = running[number % len(running)]
            if pod.tracked:
                self.ended.add(pod.uid)
                if not pod.deleting:
                    (self.succeeded if phase == "Succeeded" else self.failed).add(pod.uid)
            self.store(msgspec.structs.replace(pod, phase=phase, ended=self.now))

    def delete(self, number: int) -> None:
        """Somebody deletes a pod, whatever its state."""
        pods = list(self.pods.values())
        if pods:
            pod = pods[number % len(pods)]
            if pod.tracked and not self.spec.patient:
                self.ended.add(pod.uid)
            self.store(msgspec.structs.replace(pod, deleting=True, ended=self.now))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.integers(1, 8)),
        st.tuples(st.just("succeed"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS, st.booleans(), st.booleans())
def test_never_lost_and_never_doubled(steps: list[tuple[str, int]], indexed: bool, patient: bool) -> None:
    world = World(indexed=indexed, patient=patient)
    for verb, number in steps:
        match verb:
            case "act":
                world.act(number)
            case "succeed":
                world.end(number, "Succeeded")
            case "fail":
                world.end(number, "Failed")
            case "delete":
                world.delete(number)
            case _:
                world.backoff = Backoff()
        assert world.status.succeeded + world.status.failed <= len(world.ended)
    for _ in range(200):
        world.now = Instant(world.now + 400 * MICROS)
        world.act(100)
        if world.over() and not any(pod.tracked for pod in world.pods.values()):
            break
        world.end(0, "Succeeded")
    assert world.over()
    status = world.status
    assert status.failed >= len(world.failed)
    if indexed:
        assert (status.succeeded, status.completed_indexes) == (COMPLETIONS, f"0-{COMPLETIONS - 1}")
    else:
        assert status.succeeded >= len(world.succeeded)
        assert status.succeeded + status.failed == len(world.ended)
    assert status.uncounted_terminated_pods == Uncounted()
