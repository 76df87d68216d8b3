"""Can data become markup?"""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.text import printable
from pykueue.reports.markup import element, joined, style_element
from tests.reports.samples import HOSTILE, Reader


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    made = element("p", {"title": text}, text).text
    found = Reader(made)
    assert (found.elements, found.odd) == (["p"], [])
    assert found.attributes == [("title", printable(text))]
    assert found.text == printable(text)


@given(text=st.text(), inside=st.text())
def test_any_text_comes_back_from_html_and_from_xml(text: str, inside: str) -> None:
    made = element("text", {"class": text}, inside, element("title", {}, text)).text
    page = Reader(made)
    assert (page.elements, page.attributes) == (["text", "title"], [("class", printable(text))])
    assert page.text == printable(inside) + printable(text)
    tree = ET.fromstring(made)
    assert (tree.get("class"), tree.text or "") == (printable(text), printable(inside))


def test_only_elements_and_attributes_of_ours_can_be_written() -> None:
    for tag, attributes in (
        ("a b", {}),
        ("script", {}),
        ("style", {}),
        ("p", {"onclick": "x"}),
        ("p", {'x="': "y"}),
    ):
        with pytest.raises(AssertionError):
            element(tag, attributes)
    with pytest.raises(AssertionError):
        element("meta", {}, "text")
    with pytest.raises(AssertionError):
        style_element("</style>")


def test_absent_attributes_numbers_and_rows_of_elements() -> None:
    made = joined([element("rect", {"x": 1.0, "y": 0.123456, "class": None}), element("br", {})])
    assert made.text == '<rect x="1" y="0.12"></rect>\n<br>'
