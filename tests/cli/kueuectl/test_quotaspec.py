"""Do quotas on the command line become the resource groups that kueuectl makes of them?"""

from collections.abc import Sequence
from typing import Any

import pytest

from pykueue.cli.kueuectl.quotaspec import QuotaSpecError, resource_groups


def groups(nominal: Sequence[str], borrowing: Sequence[str] = (), lending: Sequence[str] = ()) -> list[Any]:
    """Per group: the covered resources, and for each flavor its quotas as nominal/borrowing/lending."""
    given = {"nominal-quota": nominal, "borrowing-limit": borrowing, "lending-limit": lending}
    made: list[Any] = [*resource_groups(given)]
    return [
        (
            group["coveredResources"],
            {
                flavor["name"]: {
                    one["name"]: tuple(one.get(f) for f in ("nominalQuota", "borrowingLimit", "lendingLimit"))
                    for one in flavor["resources"]
                }
                for flavor in group["flavors"]
            },
        )
        for group in made
    ]


N = (None, None)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        pytest.param(
            (["alpha-2.0:cpu=1;memory=1;example-1.org/memory=5Gi"],),
            [
                (
                    ["cpu", "memory", "example-1.org/memory"],
                    {"alpha-2.0": {"cpu": ("1", *N), "memory": ("1", *N), "example-1.org/memory": ("5Gi", *N)}},
                )
            ],
            id="one flavor",
        ),
        pytest.param(
            ([], ["alpha:cpu=1"]), [(["cpu"], {"alpha": {"cpu": ("0", "1", None)}})], id="only a borrowing limit"
        ),
        pytest.param(
            ([], [], ["alpha:cpu=1"]), [(["cpu"], {"alpha": {"cpu": ("0", None, "1")}})], id="only a lending limit"
        ),
        pytest.param(
            (["alpha:cpu=1;memory=1", "beta:memory=2;cpu=2"],),
            [
                (
                    ["cpu", "memory"],
                    {
                        "alpha": {"cpu": ("1", *N), "memory": ("1", *N)},
                        "beta": {"memory": ("2", *N), "cpu": ("2", *N)},
                    },
                )
            ],
            id="two flavors of a group in different order",
        ),
        pytest.param(
            (["alpha:cpu=1", "beta:example.com/gpu=2", "gamma:cpu=2"],),
            [
                (["cpu"], {"alpha": {"cpu": ("1", *N)}, "gamma": {"cpu": ("2", *N)}}),
                (["example.com/gpu"], {"beta": {"example.com/gpu": ("2", *N)}}),
            ],
            id="two groups",
        ),
        pytest.param(
            (["alpha:cpu=1;memory=2,beta:cpu=3;memory=4;"], ["alpha:cpu=5;memory=6"], ["alpha:memory=8;cpu=7"]),
            [
                (
                    ["cpu", "memory"],
                    {
                        "alpha": {"cpu": ("1", "5", "7"), "memory": ("2", "6", "8")},
                        "beta": {"cpu": ("3", *N), "memory": ("4", *N)},
                    },
                )
            ],
            id="all quotas, separated by commas",
        ),
        pytest.param(
            (["a:nvidia.com/mig-1g.5gb=1.5"],),
            [(["nvidia.com/mig-1g.5gb"], {"a": {"nvidia.com/mig-1g.5gb": ("1.5", *N)}})],
            id="a name and a fraction that kueuectl refuses",
        ),
        # kueuectl looks for `cpu` in the text `cpu-slow`, and refuses these.
        pytest.param(
            (["alpha:cpu-slow=1", "beta:cpu=1"],),
            [(["cpu-slow"], {"alpha": {"cpu-slow": ("1", *N)}}), (["cpu"], {"beta": {"cpu": ("1", *N)}})],
            id="a name within another",
        ),
    ],
)
def test_quotas_form_resource_groups(given: tuple[list[str], ...], made: list[Any]) -> None:
    assert groups(*given) == made


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param((["alpha"],), "invalid resources specification", id="no quota"),
        pytest.param((["alpha:cpu"],), "invalid resources specification", id="no quantity"),
        pytest.param((["alpha:=1"],), "invalid resources specification", id="no resource"),
        pytest.param((["Alpha:cpu=1"],), "invalid resources specification", id="capital letters"),
        pytest.param((["alpha:cpu=1;;memory=1"],), "invalid resources specification", id="an empty resource"),
        pytest.param((["alpha:cpu=1;cpu=2"],), "invalid resources specification", id="twice"),
        pytest.param((["alpha:" + "a" * 60 + "!=1"],), "invalid resources specification", id="a long name"),
        pytest.param((["alpha:cpu=abc"],), "invalid resource quota", id="no number"),
        pytest.param((["alpha:cpu=1"], ["alpha:memory=1"]), "invalid flavor", id="other resources"),
        pytest.param((["alpha:cpu=1;memory=1"], ["alpha:cpu=1"]), "invalid flavor", id="fewer resources"),
        pytest.param((["alpha:cpu=1;memory=1", "beta:cpu=1"],), "invalid resource group", id="a shared resource"),
        # kueuectl accepts these, and the server refuses them.
        pytest.param((["beta:cpu=1", "alpha:cpu=1;memory=1"],), "invalid resource group", id="the other way round"),
    ],
)
def test_mistakes_are_named_as_kueuectl_names_them(given: tuple[list[str], ...], says: str) -> None:
    with pytest.raises(QuotaSpecError, match=f"^{says}: "):
        groups(*given)
