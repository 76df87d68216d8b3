"""Label selectors, as the auditor evaluates them."""

from collections.abc import Mapping

from pykueue.api.core import LabelSelector


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches the labels: an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted: list[tuple[str, str, tuple[str, ...]]]
    wanted = [("In", key, (value,)) for key, value in selector.match_labels.items()]
    wanted += [(one.operator, one.key, one.values) for one in selector.match_expressions]
    verdicts = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, values: key in labels,
        "DoesNotExist": lambda key, values: key not in labels,
    }
    return all(operator in verdicts and verdicts[operator](key, values) for operator, key, values in wanted)
