"""Webhook configurations, with Kueue's names and paths.

A Job without a queue is not sent to us, so that an outage of ours cannot stop it. The manager's own writes are not sent
either: it would wait for its own response. ADR 0010 explains why, and how a Job that names no queue gets the default
one nevertheless.
"""

from typing import Final

import msgspec

from pykueue.api.config.rules import POD
from pykueue.api.config.types import FRAMEWORKS, SYSTEM_NAMESPACE, everywhere_but
from pykueue.api.config.unbuilt import unbuilt_frameworks
from pykueue.api.core import Tree
from pykueue.api.install.install import ACCOUNT, Install, named
from pykueue.api.install.rbac import MUTATING, VALIDATING
from pykueue.api.kinds import KINDS
from pykueue.api.names import DEFAULT_QUEUE, GROUP, Label

REGISTRATION: Final = "admissionregistration.k8s.io"
QUEUE: Final = f"'{Label.QUEUE}'"
POLICY: Final = "kueue-default-queue"
IGNORED_SECONDS: Final = 2
"""The timeout for a Job that may not be ours."""


def names_queue(who: str) -> str:
    """CEL for: this object names a queue; an empty name counts as none."""
    labels = f"{who}.metadata.labels"
    return f"(has({labels}) && {QUEUE} in {labels} && {labels}[{QUEUE}] != '')"


CREATED_WITH_QUEUE: Final = names_queue("object")
EVER_WITH_QUEUE: Final = f"{names_queue('object')} || (oldObject != null && {names_queue('oldObject')})"
OWNED_BY_OURS: Final = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
    "has(o.controller) && o.controller && o.apiVersion == 'batch/v1' && o.kind == 'Job')"
)
CONTROLLED: Final = (
    "has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
)
OPEN: Final = "!has(params.spec.stopPolicy) || params.spec.stopPolicy == 'None'"


def webhooks(install: Install) -> tuple[Tree, ...]:
    """The webhook configurations, and the policy that sets the default queue."""
    policy = install.default_queues == "policy" and not install.configuration.manage_jobs_without_queue_name
    return (
        *(default_queue(install) if policy else ()),
        configuration("Mutating", MUTATING, mutating(install)),
        configuration("Validating", VALIDATING, validating(install)),
    )


def configuration(sort: str, name: str, hooks: list[Tree]) -> Tree:
    """A webhook configuration."""
    return {
        "apiVersion": f"{REGISTRATION}/v1",
        "kind": f"{sort}WebhookConfiguration",
        "metadata": named(name),
        "webhooks": [*hooks],
    }


def mutating(install: Install) -> list[Tree]:
    """The mutating webhooks."""
    ours = [kind_hook(install, kind, "mutate", ("CREATE",)) for kind in ("ClusterQueue", "ResourceFlavor", "Workload")]
    return [*ours, *job_defaulting(install)]


def validating(install: Install) -> list[Tree]:
    """The validating webhooks."""
    both = ("CREATE", "UPDATE")
    kinds = ("ClusterQueue", "Cohort", "ResourceFlavor", "Workload")
    ours = [kind_hook(install, kind, "validate", both) for kind in kinds]
    asked = () if install.configuration.manage_jobs_without_queue_name else (("names-a-queue", EVER_WITH_QUEUE),)
    return [*ours, job_hook(install, "vjob.kb.io", "validate", both, asked), *unqueued_hooks(install)]


def unqueued_hooks(install: Install) -> list[Tree]:
    """Webhooks that warn about a queued job whose kind is enabled but not built.

    Failures are ignored, so an outage of ours delays none of these jobs.
    """
    found: list[Tree] = []
    for framework in unbuilt_frameworks(install.configuration):
        kind, version, group = FRAMEWORKS[framework].split(".", 2)
        asked: tuple[tuple[str, str], ...] = (("names-a-queue", CREATED_WITH_QUEUE),)
        if framework == POD:
            asked = (*asked, ("has-no-controller", f"!({CONTROLLED})"))
        path = f"/validate-{group.replace('.', '-')}-{version}-{kind.lower()}"
        made = hook(install, f"v{kind.lower()}.kb.io", path, asked)
        made |= rules(group, version, (f"{kind.lower()}s",), ("CREATE", "UPDATE"))
        made |= {"failurePolicy": "Ignore", "timeoutSeconds": IGNORED_SECONDS, "namespaceSelector": managed(install)}
        found.append(made)
    return found


def job_defaulting(install: Install) -> list[Tree]:
    """The webhooks that suspend Jobs: those that name a queue, and those that may use the default one."""
    create = ("CREATE",)
    if install.configuration.manage_jobs_without_queue_name:
        return [job_hook(install, "mjob.kb.io", "mutate", create, ())]
    named_queue = job_hook(install, "mjob.kb.io", "mutate", create, (("names-a-queue", CREATED_WITH_QUEUE),))
    if install.default_queues == "policy":
        return [named_queue]
    asked = (("names-no-queue", f"!{CREATED_WITH_QUEUE}"),)
    without = job_hook(install, "mjob-default-queue.kb.io", "mutate", create, asked)
    return [named_queue, without | {"failurePolicy": "Ignore", "timeoutSeconds": IGNORED_SECONDS}]


def kind_hook(install: Install, kind: str, does: str, operations: tuple[str, ...]) -> Tree:
    """The webhook of one of our kinds."""
    version, plural = KINDS[kind].versions[0], KINDS[kind].plural
    resources = (plural, f"{plural}/status") if (kind, does) == ("Workload", "validate") else (plural,)
    name, path = f"{does[0]}{kind.lower()}.kb.io", f"/{does}-{GROUP.replace('.', '-')}-{version}-{kind.lower()}"
    return hook(install, name, path) | rules(GROUP, version, resources, operations)


def job_hook(
    install: Install, name: str, does: str, operations: tuple[str, ...], asked: tuple[tuple[str, str], ...]
) -> Tree:
    """The webhook of Jobs, in managed namespaces."""
    made = hook(install, name, f"/{does}-batch-v1-job", asked) | rules("batch", "v1", ("jobs",), operations)
    return made | {"namespaceSelector": managed(install)}


def hook(install: Install, name: str, path: str, asked: tuple[tuple[str, str], ...] = ()) -> Tree:
    """A webhook without its rules, called only if all these conditions hold and the writer is not the manager."""
    account = f"system:serviceaccount:{install.namespace}:{ACCOUNT}"
    conditions = (("not-our-own-write", f"request.userInfo.username != '{account}'"), *asked)
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": install.namespace, "name": install.service, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "matchConditions": [{"name": condition, "expression": expression} for condition, expression in conditions],
    }


def rules(group: str, version: str, resources: tuple[str, ...], operations: tuple[str, ...]) -> Tree:
    """The rules of a webhook or a policy for one kind."""
    rule: Tree = {"apiGroups": [group], "apiVersions": [version], "operations": [*operations]}
    return {"rules": [rule | {"resources": [*resources]}]}


def managed(install: Install) -> Tree:
    """The selector of managed namespaces."""
    selector = install.configuration.managed_jobs_namespace_selector
    chosen = selector or everywhere_but(SYSTEM_NAMESPACE, install.namespace)
    return msgspec.json.decode(msgspec.json.encode(chosen), type=dict)


def default_queue(install: Install) -> tuple[Tree, Tree]:
    """The policy by which the server gives a Job without a queue the default one, if there is one.

    The Job then names a queue like any other, so its webhook, which runs later, sees it.
    """
    apply = f"Object{{metadata: Object.metadata{{labels: {{{QUEUE}: '{DEFAULT_QUEUE}'}}}}}}"
    conditions = (
        ("names-no-queue", f"!{CREATED_WITH_QUEUE}"),
        ("not-of-another-job", f"!({OWNED_BY_OURS})"),
        ("queue-is-open", OPEN),
    )
    spec: Tree = {
        "paramKind": {"apiVersion": f"{GROUP}/v1beta2", "kind": "LocalQueue"},
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": managed(install),
            "resourceRules": rules("batch", "v1", ("jobs",), ("CREATE",))["rules"],
        },
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": apply}}],
    }
    bound: Tree = {
        "policyName": POLICY,
        "paramRef": {"name": DEFAULT_QUEUE, "parameterNotFoundAction": "Allow"},
    }
    version = f"{REGISTRATION}/v1"
    return (
        {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": named(POLICY), "spec": spec},
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": named(f"{POLICY}-binding"),
            "spec": bound,
        },
    )
