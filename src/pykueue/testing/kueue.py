"""`Kueue`: test a queueing policy; apply manifests, submit jobs, advance time, and see which run and why others wait.

    def test_the_neighbour_gets_its_quota_back(kueue):
        kueue.apply("queues.yaml")
        kueue.job("borrower", queue="team-a", cpu=8)
        assert kueue.running() == {"borrower"}
        kueue.job("owner", queue="team-b", cpu=4)
        assert kueue.running() == {"owner"}
        assert "preempted" in kueue.waiting()["borrower"]

The clock is manual: `advance` moves it, and each change moves it by two seconds (see `settle`).
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, Final

import msgspec

from pykueue.api.durations import parse_duration
from pykueue.api.names import GPU, Label, WorkloadCondition
from pykueue.api.trees import mapping, mappings, member, text
from pykueue.api.yamltext import FILE, yaml_trees
from pykueue.apiserver.schema.schemas import definition
from pykueue.base.units import MICROS, Instant
from pykueue.bridge.sentences import condition, named, pending_text, shrinkable, unnamed
from pykueue.checks.pendingchecks import awaited
from pykueue.engine.record.parsing import preemption
from pykueue.kube.client.http import collection, path_of
from pykueue.kube.port import EVENTS, JOBS, PODS, WORKLOADS, Patch, Resource
from pykueue.testing.embedded import Embedded
from pykueue.testing.script import PREFIX, mistake

NAMESPACE: Final = "default"
SETTLING_SECONDS: Final = 2.0
"""Long enough for all controllers: pending reasons and queue statuses are written with a delay of a second."""
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_SPEC: Final = "io.k8s.api.batch.v1.JobSpec"


class ApiError(AssertionError):
    """The API returned an error."""

    def __init__(self, what: str, code: int, status: Mapping[str, Any]) -> None:
        super().__init__(f"{what}: {status.get('message') or code}")
        self.code = code
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", ""))


class Client:
    """API calls that return when nothing is left to do at the current time."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded

    def request(self, verb: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send a request; return the decoded response, or raise `ApiError`."""
        data = None if body is None else msgspec.json.encode(body)
        code, answer = self.embedded.request(verb, path, data, content_type)
        tree = msgspec.json.decode(answer) if answer else {}
        if code >= 400:
            raise ApiError(f"{verb} {path}", code, tree)
        return tree

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """Get an object."""
        return self.request("GET", path_of(resource, namespace, name))

    def list(self, resource: Resource, namespace: str = "", labels: str = "") -> list[Any]:
        """List the objects of a kind."""
        asked = f"?labelSelector={labels}" if labels else ""
        found: list[Any] = self.request("GET", collection(resource, namespace) + asked)["items"]
        return found

    def create(self, resource: Resource, tree: Mapping[str, Any], namespace: str = "") -> Any:
        """Create an object; return it as stored."""
        return self.request("POST", collection(resource, namespace), tree)

    def patch(self, resource: Resource, name: str, body: object, namespace: str = "", subresource: str = "") -> Any:
        """Send a merge patch; return the object."""
        return self.request("PATCH", path_of(resource, namespace, name, subresource), body, Patch.MERGE)

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object, with background propagation."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        self.request("DELETE", path_of(resource, namespace, name), options)

    def apply(self, tree: Mapping[str, Any], manager: str = "test") -> Any:
        """Server-side apply an object of any served kind, forcing conflicts; return the object."""
        resource = self.resource_of(tree)
        namespace = text(tree, "metadata", "namespace") or (NAMESPACE if resource.namespaced else "")
        path = path_of(resource, namespace, text(tree, "metadata", "name"))
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", tree, Patch.APPLY)

    def resource_of(self, tree: Mapping[str, Any]) -> Resource:
        """The resource of an object's kind."""
        version, kind = text(tree, "apiVersion"), text(tree, "kind")
        for served in self.embedded.local.catalog.all():
            if (served.resource.api_version, served.resource.kind) == (version, kind):
                return served.resource
        raise ApiError(
            "apply", 404, {"message": f"no kind {kind!r} in apiVersion {version!r}; correct apiVersion and kind"}
        )


class Kueue:
    """The system under test."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        gates: Mapping[str, bool] | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        self.folder = folder
        """Where `apply` looks for files that are not in the current directory: beside the test."""
        self.embedded = Embedded(config, gates=gates)
        self.client = Client(self.embedded)

    # Objects.

    def apply(self, *what: str | Path | Mapping[str, Any]) -> None:
        """Apply objects: files or directories of manifests, YAML text, or mappings.

        A relative path is looked up in the current directory, then beside the test.
        """
        __tracebackhide__ = True
        for one in what:
            for tree in trees_of(one, self.folder):
                self.client.apply(tree)
        self.settle()

    def namespace(self, name: str, **labels: str) -> None:
        """Create or update a namespace."""
        self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def job(
        self,
        name: str,
        *,
        queue: str | None = None,
        cpu: object = 1,
        memory: object = None,
        gpu: object = None,
        pods: int = 1,
        priority: str = "",
        namespace: str = NAMESPACE,
        run_for: str = "",
        script: Mapping[str, str] | None = None,
        requests: Mapping[str, object] | None = None,
        **spec: Any,
    ) -> str:
        """Submit a Job to a queue; return its name. Its pods run for `run_for`, or until `finish` or `fail`.

        `script` sets further pod behaviour (see `testing.script`); `spec` is merged into the spec of the Job.
        """
        __tracebackhide__ = True
        for field in spec:
            if field not in job_fields():
                near = get_close_matches(field, [*signature(self.job).parameters, *job_fields()], n=1)
                advice = f"did you mean {near[0]}?" if near else "it is neither an option nor a field of a Job's spec"
                raise TypeError(f"Job {namespace}/{name}: unknown keyword {field!r}; {advice}")
        # Checked here, so that a misspelt `queue` is reported with its nearest name.
        if queue is None:
            raise TypeError(f"Job {namespace}/{name}: the keyword 'queue' is missing; name its LocalQueue")
        asked = {"cpu": cpu, "memory": memory, GPU: gpu, **(requests or {})}
        amounts = {resource: str(amount) for resource, amount in asked.items() if amount is not None}
        limits = {resource: amount for resource, amount in amounts.items() if "/" in resource}
        labels = {Label.QUEUE.value: queue} | ({Label.PRIORITY_CLASS.value: priority} if priority else {})
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": limits}}
        said = ({"run-for": run_for} if run_for else {}) | dict(script or {})
        if wrong := mistake(said):
            raise ValueError(f"Job {namespace}/{name}: {wrong}")
        tree = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "template": {
                    "metadata": {"annotations": {f"{PREFIX}{key}": value for key, value in said.items()}},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
                **spec,
            },
        }
        self.client.create(JOBS, tree, namespace)
        self.settle()
        return name

    def finish(self, job: str, namespace: str = NAMESPACE) -> None:
        """Make the running pods of a Job succeed."""
        self.tell(job, namespace, {"now": "succeeded"})

    def fail(self, job: str, namespace: str = NAMESPACE, *, exit_code: int = 1) -> None:
        """Make the running pods of a Job fail."""
        self.tell(job, namespace, {"now": "failed", "exit-code": str(exit_code)})

    def tell(self, job: str, namespace: str, script: Mapping[str, str]) -> None:
        """Change the script of the running pods of a Job (see `testing.script`)."""
        if wrong := mistake(script):
            raise ValueError(f"Job {namespace}/{job}: {wrong}")
        pods = [pod for pod in self.pods(job, namespace) if text(pod, "status", "phase") == "Running"]
        assert pods, f"Job {namespace}/{job} has no running pods: {self.why(job, namespace) or 'it may have ended'}"
        annotations = {f"{PREFIX}{key}": value for key, value in script.items()}
        for pod in pods:
            name = text(pod, "metadata", "name")
            self.client.patch(PODS, name, {"metadata": {"annotations": annotations}}, namespace)
        self.settle()

    def delete(self, job: str, namespace: str = NAMESPACE) -> None:
        """Delete a Job."""
        self.client.delete(JOBS, job, namespace)
        self.settle()

    # Time.

    @property
    def now(self) -> Instant:
        """The current time of the manual clock."""
        return self.embedded.clock.now()

    def advance(self, duration: str) -> None:
        """Advance the clock, e.g. by `90s`, `10m` or `1h30m`; raises `ValueError` for anything else."""
        __tracebackhide__ = True
        if not isinstance(duration, str):
            raise ValueError(f"advance: {duration!r} has no unit; write it as in '90s', '10m' or '1h30m'")
        micros = parse_duration(duration)
        if micros < 0:
            raise ValueError(f"advance: {duration!r} is negative; the clock only goes forward")
        self.embedded.advance(micros / MICROS)
        self.embedded.failed()

    def settle(self) -> None:
        """Advance the clock by two seconds, in which the controllers react; every change calls this."""
        self.embedded.advance(SETTLING_SECONDS)
        self.embedded.failed()

    # Results.

    def running(self, namespace: str = NAMESPACE) -> set[str]:
        """The names of the Jobs that are admitted and have active pods."""
        return {
            text(job, "metadata", "name")
            for job in self.client.list(JOBS, namespace)
            if member(job, "status", "active") and member(job, "spec", "suspend") is not True
        }

    def finished(self, namespace: str = NAMESPACE) -> set[str]:
        """The names of the Jobs that are Complete or Failed."""
        return {
            text(job, "metadata", "name")
            for job in self.client.list(JOBS, namespace)
            if any(
                text(one, "type") in ("Complete", "Failed") and text(one, "status") == "True"
                for _, one in mappings(job, "status", "conditions")
            )
        }

    def waiting(self, namespace: str = NAMESPACE) -> dict[str, str]:
        """The pending Jobs, each with its reason."""
        over, busy = self.finished(namespace), self.running(namespace)
        names = [text(job, "metadata", "name") for job in self.client.list(JOBS, namespace)]
        return {name: self.why(name, namespace) for name in names if name not in over and name not in busy}

    def why(self, job: str, namespace: str = NAMESPACE) -> str:
        """Why a Job is pending; empty if it is not."""
        workload = self.workload(job, namespace)
        if workload is None:
            return self.warned(job, namespace)
        reserved = condition(workload, WorkloadCondition.QUOTA_RESERVED)
        if text(reserved, "status") == "True":
            checks = awaited(workload)
            return f"waiting for admission checks: {checks}" if checks else ""
        # The engine has the reason before the status shows it.
        key = f"{namespace}/{text(workload, 'metadata', 'name')}"
        reserved = self.embedded.local.reason(key) or reserved
        message = text(reserved, "message")
        if known := preemption(message):
            found = self.client.list(WORKLOADS, labels=f"{Label.JOB_UID}={known.job_uid}")
            return named(known, found[0], namespace) if found else unnamed(known)
        words = pending_text(reserved, shrinkable(workload))
        return message if words == message else f"{words} ({message})"

    def warned(self, job: str, namespace: str) -> str:
        """The latest warning Event of a suspended Job without a Workload."""
        tree = self.client.get(JOBS, job, namespace)
        if member(tree, "spec", "suspend") is not True:
            return ""
        uid = text(tree, "metadata", "uid")
        said = [
            (text(event, "eventTime"), text(event, "note"))
            for event in self.client.list(EVENTS, namespace)
            if text(event, "regarding", "uid") == uid and text(event, "type") == "Warning"
        ]
        return max(said)[1] if said else ""

    def workload(self, job: str, namespace: str = NAMESPACE) -> Any:
        """The Workload of a Job; None if it has none."""
        uid = text(self.client.get(JOBS, job, namespace), "metadata", "uid")
        found = self.client.list(WORKLOADS, namespace, f"{Label.JOB_UID}={uid}")
        return found[0] if found else None

    def pods(self, job: str, namespace: str = NAMESPACE) -> list[Any]:
        """The pods of a Job."""
        uid = text(self.client.get(JOBS, job, namespace), "metadata", "uid")
        return self.client.list(PODS, namespace, f"{CONTROLLER_UID}={uid}")

    def close(self) -> None:
        """Stop the system."""
        self.embedded.close()


@cache
def job_fields() -> frozenset[str]:
    """The fields of a Job's spec."""
    return frozenset(mapping(definition(JOB_SPEC), "properties"))


def trees_of(what: str | Path | Mapping[str, Any], folder: Path | None = None) -> Iterator[Mapping[str, Any]]:
    """The objects in a file, a directory, a text or a mapping; a path may be relative to `folder`."""
    __tracebackhide__ = True
    if isinstance(what, Mapping):
        yield from what["items"] if what.get("kind") == "List" else [what]
        return
    if isinstance(what, Path) or ("\n" not in what and not what.lstrip().startswith("{")):
        path = Path(what)
        if not path.exists() and folder is not None:
            path = folder / path
        if not path.exists():
            places = dict.fromkeys(str(one) for one in (Path.cwd(), folder) if one is not None)
            where = "" if Path(what).is_absolute() else f" in {' or '.join(places)}"
            raise FileNotFoundError(
                f"{what}: no such file or directory{where}; YAML text must have several lines or start with a brace"
            )
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        assert files, f"{path}: the directory contains no manifests; their names must end in .yaml"
        texts = {str(file): file.read_text() for file in files}
    else:
        texts = {"<text>": what}
    for source, one in texts.items():
        for number, read in yaml_trees(one, FILE):
            assert not read.mistakes, f"{source}: document {number}: {read.mistakes[0]}"
            tree = read.value
            if tree is not None:
                assert isinstance(tree, Mapping), f"{source}: {tree!r} is not an object; add apiVersion and kind"
                yield from trees_of(tree)
