"""Follow the jobs of a server that does not list them itself, by watches of Jobs, Workloads and pods."""

import asyncio
import logging

from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload
from pykueue.base.clock import Clock
from pykueue.cli.jobs.cluster import ClusterJobs
from pykueue.jobs.batch import JobView, read_job
from pykueue.kube.informer import Informer
from pykueue.kube.port import JOBS, PODS, WORKLOADS, Kube
from pykueue.kubecontrollers.jobviews import Pod, read_pod


class ClusterWatch:
    """The jobs of a namespace, or of all, kept up to date."""

    def __init__(self, kube: Kube, clock: Clock, namespace: str, labels: str = "") -> None:
        # What it logs is shown as trouble, or was said with the first list.
        logging.getLogger("pykueue.kube").setLevel(logging.CRITICAL)
        self.jobs: Informer[JobView] = Informer(kube, JOBS, read_job, clock, namespace=namespace, labels=labels)
        self.workloads: Informer[Workload] = Informer(
            kube, WORKLOADS, lambda raw: decode_as(Workload, raw), clock, namespace=namespace
        )
        self.pods: Informer[Pod] = Informer(kube, PODS, read_pod, clock, namespace=namespace)
        self.known = ClusterJobs(clock)
        self.known.complete = not labels
        self.jobs.listen(lambda change: self.known.job(change.old, change.new))
        self.workloads.listen(lambda change: self.known.workload(change.old, change.new))
        self.pods.listen(lambda change: self.known.pod(change.old, change.new))
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to watch."""
        self.tasks = [asyncio.ensure_future(one.run()) for one in (self.jobs, self.workloads, self.pods)]

    def stop(self) -> None:
        """Stop to watch."""
        for task in self.tasks:
            task.cancel()

    @property
    def complete(self) -> bool:
        """Whether everything is listed; before that, rows would lack their state."""
        return self.jobs.synced.is_set() and (self.workloads.synced.is_set() or bool(self.workloads.trouble))

    @property
    def failing(self) -> bool:
        """Whether the server has not responded several times."""
        return self.jobs.failures > 1
