"""What do the simulator's tests share? Manifests in a line each."""

from pykueue.sim.report import Report, report
from pykueue.sim.trace import Setting, read_trace
from pykueue.sim.world import Past, World

FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}\n"


def queue(name: str = "main", cpu: object = 4, **spec: str) -> str:
    """A ClusterQueue with a quota of cpu, and a LocalQueue of the same name."""
    extra = "".join(f"  {key}: {value}\n" for key, value in spec.items())
    return (
        f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {{name: {name}}}\nspec:\n"
        f"  namespaceSelector: {{}}\n{extra}"
        "  resourceGroups:\n  - coveredResources: [cpu]\n"
        f"    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}]\n"
        f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {{name: {name}}}\n"
        f"spec: {{clusterQueue: {name}}}\n"
    )


def job(name: str, cpu: object = 1, queue: str = "main", klass: str = "", **annotations: object) -> str:
    """A Job with annotations of the simulator, `run_seconds=60` for one."""
    notes = ", ".join(f'pykueue.io/{key.replace("_", "-")}: "{value}"' for key, value in annotations.items())
    label = f", kueue.x-k8s.io/priority-class: {klass}" if klass else ""
    return (
        f"---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, "
        f"labels: {{kueue.x-k8s.io/queue-name: {queue}{label}}}, annotations: {{{notes}}}}}\n"
        f"spec: {{template: {{spec: {{containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}\n"
    )


def workload(status: str = "") -> str:
    """A Workload of its own that asks for one cpu."""
    return (
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: w}\nspec:\n  queueName: main\n"
        "  podSets: [{name: main, count: 1, template: {spec: {containers: [{name: a, resources: "
        f"{{requests: {{cpu: 1}}}}}}]}}}}}}]\n{status}"
    )


def check(name: str, answer: str) -> str:
    """An AdmissionCheck, and how it answers."""
    return (
        f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\n"
        f"metadata: {{name: {name}, annotations: {{pykueue.io/check: {answer}}}}}\nspec: {{controllerName: x.io/y}}\n"
    )


def priority(name: str, value: int) -> str:
    """A WorkloadPriorityClass."""
    return (
        f"---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\n"
        f"metadata: {{name: {name}}}\nvalue: {value}\n"
    )


def configuration(text: str) -> str:
    """The controller's Configuration."""
    return f"---\napiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}"


def simulated(*manifests: str, until: int | None = None, seed: int = 0) -> Past:
    """What happens with these manifests; `until` is in seconds."""
    trace = read_trace([("test.yaml", (FLAVOR + "".join(manifests)).encode())], Setting(seed=seed))
    return World(trace).run(None if until is None else type(trace.start)(trace.start + until * 1_000_000))


def reported(*manifests: str, until: int | None = None) -> Report:
    """The report on what happens with these manifests."""
    return report(simulated(*manifests, until=until))


def story(past: Past) -> list[str]:
    """What happened, as `seconds name what`."""
    names = {one.workload.key: one.name.removeprefix("default/") for one in past.trace.arrivals}
    return [f"{(m.at - past.trace.start) // 1_000_000} {names[m.workload]} {m.what}" for m in past.moments]
