"""Print the output of Jobs, each pod in order."""

from collections.abc import Sequence

from pykueue.api.core import Tree
from pykueue.api.names import COMPLETION_INDEX, Annotation
from pykueue.api.trees import text
from pykueue.base.clock import SystemClock
from pykueue.cli.follow.job import RAN, Following
from pykueue.cli.follow.output import Output
from pykueue.cli.groups import INTERRUPTED
from pykueue.cli.jobend import pods_of, started_at
from pykueue.cli.jobs import lostoutput
from pykueue.cli.jobs.chosen import ERROR, Chosen, Missing, Named, array_in, chosen_jobs, report, task_name
from pykueue.cli.jobs.verbs import workloads_of
from pykueue.cli.messages import tell
from pykueue.cli.objects import everything
from pykueue.cli.target import Target
from pykueue.kube.client.http import HttpKube
from pykueue.kube.port import PODS, Kube, UnansweredError


class Logs:
    """Prints the output of the chosen Jobs."""

    def __init__(
        self,
        target: Target,
        namespace: str,
        names: Sequence[Named],
        selector: str | None,
        *,
        follow: bool = False,
        tail: int | None = None,
        index: int | None = None,
    ) -> None:
        self.target = target
        self.namespace = namespace
        self.names = names
        self.selector = selector
        self.follow = follow
        self.tail = tail
        self.index = index
        """The index of Jobs that are selected by label."""

    async def show(self, kube: HttpKube) -> int:
        """Print the output; return the exit code."""
        try:
            jobs = await chosen_jobs(kube, self.namespace, self.names, self.selector, self.index)
        except Missing as error:
            return report(error)
        code = 0
        for job in jobs:
            if len(jobs) > 1:
                tell(f"{job.title}:")
            found = await (self.followed(job) if self.follow and not job.ended else self.printed(kube, job))
            if found == INTERRUPTED:
                return found
            code = max(code, found)
        return code

    async def followed(self, job: Chosen) -> int:
        """Print the output of a Job until it ends; return the exit code."""
        following = Following(
            self.target, self.namespace, command="logs", index=job.index, tail=self.tail, judges=False
        )

        async def start(_kube: Kube) -> Tree:
            return job.tree

        return await following.run(start, failing=ERROR)

    async def printed(self, kube: HttpKube, job: Chosen) -> int:
        """Print the present output of a Job; return the exit code."""
        pods = await everything(kube, PODS, self.namespace, labels=pods_of(job.uid, job.index))
        ran = sorted((one for one in pods if text(one, "status", "phase") in RAN), key=place)
        workload = (await workloads_of(kube, self.namespace, [job]) or {}).get(job.uid, {})
        file = written_file(job)
        if not ran and (gone := lostoutput.of_ended(job.tree) if job.ended else lostoutput.of_stopped(workload)):
            tell(f"{job.title}: {gone.replace(lostoutput.KEEP, file) if file else gone}")
            return ERROR
        if not ran:
            tell(f"{job.title} has not started; `pykueue attach {job.name}` waits for it and shows why it is pending")
            return 0
        if file:
            tell(f"{job.title}: {file}")
        elif note := lostoutput.of_earlier_runs(workload):
            tell(f"{job.title}: {note}")
        output = Output(kube, SystemClock(), self.namespace)
        problems: list[str] = []
        for pod in ran:
            if len(ran) > 1:
                tell(f"{titled(job.tree, pod)}:")
            try:
                problem = await output.show(pod, follow=False, tail=self.tail)
            except UnansweredError as error:
                problem = f"cannot read the output of pod {text(pod, 'metadata', 'name')}: {error}"
            if problem:
                problems.append(problem)
        problems += output.problems()
        for one in problems:
            tell(one)
        return ERROR if problems else 0


def written_file(job: Chosen) -> str:
    """A sentence about the file to which a Job writes its output itself; empty if it writes none."""
    pattern = text(job.tree, "metadata", "annotations", Annotation.OUTPUT)
    if not pattern:
        return ""
    array = array_in(job.tree)
    task = None if job.index is None or array is None else array.task(job.index)
    each = ", with the number of each task for %a" if task is None and array is not None else ""
    return f"its standard output is in {lostoutput.file_of(pattern, job.name, task)}{each}"


def place(pod: Tree) -> tuple[int, tuple[str, str]]:
    """The order in which the pods of a Job are shown: by index, then by their start."""
    return index_of(pod), started_at(pod)


def index_of(pod: Tree) -> int:
    """The index of a pod of an Indexed Job; -1 for others."""
    found = text(pod, "metadata", "labels", COMPLETION_INDEX)
    return int(found) if found.isascii() and found.isdigit() else -1


def titled(job: Tree, pod: Tree) -> str:
    """How messages name a pod of a Job."""
    index = index_of(pod)
    return f"pod {text(pod, 'metadata', 'name')}" + ("" if index < 0 else f", {task_name(job, index)}")
