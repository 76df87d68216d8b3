"""The parameters of our AdmissionChecks: their configuration, timeout, and whether they can be performed."""

from collections.abc import Mapping
from typing import Final

from pykueue.api.checks import AdmissionCheck, ProvisioningRequestConfig
from pykueue.api.names import GROUP, Annotation
from pykueue.base.units import Seconds
from pykueue.bridge.statuses import Verdict

KIND: Final = "ProvisioningRequestConfig"
BAD: Final = "bad parameters reference"
ACTIVE: Final = "The admission check is active"
HOW: Final = "the CustomResourceDefinition provisioningrequests.autoscaling.x-k8s.io comes with the cluster autoscaler"
DIGITS_MAX: Final = 9


def referenced(
    check: AdmissionCheck, configs: Mapping[str, ProvisioningRequestConfig]
) -> ProvisioningRequestConfig | str:
    """The configuration of a check, or what is wrong with the reference to it."""
    reference = check.spec.parameters
    if reference is None:
        return "missing parameters reference"
    if not reference.name:
        return f"empty name: {BAD}"
    if reference.api_group != GROUP:
        return f'wrong group "{reference.api_group}", expecting "{GROUP}": {BAD}'
    if reference.kind != KIND:
        return f'wrong kind "{reference.kind}", expecting "{KIND}": {BAD}'
    return configs.get(reference.name, f'{KIND}.{GROUP} "{reference.name}" not found')


def timeout(check: AdmissionCheck) -> Seconds | None:
    """How long the autoscaler may take, from an annotation; None is forever."""
    text = check.metadata.annotations.get(Annotation.CHECK_TIMEOUT, "")
    if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX and int(text) > 0:
        return Seconds(int(text))
    return None


def verdict(check: AdmissionCheck, configs: Mapping[str, ProvisioningRequestConfig], trouble: str) -> Verdict:
    """Whether a check can be performed; `trouble` is why requests or their templates cannot be read."""
    if trouble:
        return Verdict(False, "ProvisioningRequestsUnreadable", trouble)
    found = referenced(check, configs)
    if isinstance(found, str):
        return Verdict(False, "BadParametersRef", found)
    stated = check.metadata.annotations.get(Annotation.CHECK_TIMEOUT)
    if stated is not None and timeout(check) is None:
        idle = f"the annotation {Annotation.CHECK_TIMEOUT} has no effect: {stated[:63]!r} is not a number of seconds"
        return Verdict(True, "Active", f"{ACTIVE}; {idle}")
    return Verdict(True, "Active", ACTIVE)
