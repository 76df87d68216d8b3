"""What a user may do on a server, so that the page offers nothing that would be refused."""

import asyncio
from typing import Final

import msgspec

from pykueue.api.trees import member
from pykueue.cli.dashboard.overview import Can
from pykueue.kube.port import CLUSTER_QUEUES, JOBS, PODS, Kube, KubeError, Resource, UnansweredError

REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


async def rights(kube: Kube, namespace: str) -> Can:
    """What the user may do in a namespace; raises `KubeError` if the server does not respond."""
    asked = (("delete", JOBS, ""), ("patch", JOBS, ""), ("update", CLUSTER_QUEUES, ""), ("get", PODS, "log"))
    return Can(*await asyncio.gather(*(may(kube, namespace, *one) for one in asked)))


async def may(kube: Kube, namespace: str, verb: str, resource: Resource, subresource: str) -> bool:
    """Whether the user may use a verb; False if the server does not say."""
    attributes = {
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "namespace": namespace if resource.namespaced else "",
    }
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    try:
        answer = msgspec.json.decode(await kube.create(REVIEWS, msgspec.json.encode(body)))
    except UnansweredError:
        raise
    except KubeError:
        return False
    return member(answer, "status", "allowed") is True
