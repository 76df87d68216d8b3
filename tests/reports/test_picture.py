"""Is the picture one well-formed file whatever jobs are called?"""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.reports.figures import figures
from pykueue.reports.picture import report_picture
from pykueue.reports.records import Material
from tests.reports.samples import ATTRIBUTES, ELEMENTS, HOSTILE, day

SVG = "{http://www.w3.org/2000/svg}"


def tree(material: Material) -> ET.Element:
    return ET.fromstring(report_picture(figures(material)))


def test_the_picture_has_the_plots_below_each_other() -> None:
    root = tree(replace(day(), elapsed=True))
    plots = root.findall(f"{SVG}svg")
    assert len(plots) == 7, "all teams, two teams, queue length, waits, lost work, jobs"
    ends = [float(one.get("y", "")) + float(one.get("height", "")) for one in plots]
    assert max(ends) < float(root.get("height", ""))
    assert all(one.find(f"{SVG}title") is not None and one.find(f"{SVG}desc") is not None for one in (root, *plots))
    ids = [value for one in root.iter() if (value := one.get("id"))]
    assert len(ids) == len(set(ids))


def strange(root: ET.Element) -> list[str]:
    found = [one.tag.removeprefix(SVG) for one in root.iter()]
    names = [name.lower() for one in root.iter() for name in one.attrib]
    return [*(one for one in found if one not in ELEMENTS), *(one for one in names if one not in ATTRIBUTES)]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_nothing(name: str) -> None:
    assert strange(tree(replace(day(name, name, name, name), elapsed=True))) == []


@given(name=st.text(min_size=1))
def test_no_name_adds_anything(name: str) -> None:
    assert strange(tree(day(name, name, name, name))) == []
