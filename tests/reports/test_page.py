"""Is the page whole, closed to anything from outside, and safe whatever jobs are called?"""

import base64
import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykueue.base.text import printable
from pykueue.reports.figures import figures
from pykueue.reports.page import report_page, span
from pykueue.reports.records import Calibration, Material, Period
from tests.reports.samples import HOSTILE, Reader, day, foreign, hour


def page(material: Material) -> str:
    return report_page(figures(material))


def test_the_page_has_every_part() -> None:
    text = Reader(page(day())).text
    for words in (
        "Use over time",
        "Queue length",
        "The longest waits",
        "Preemptions and lost work",
        "needs 2 more cpu",
        "1 h of work lost",
        "Of the last 20 estimates, 18 were right (90 %)",
        "as good as they claim",
        "Jobs in namespaces that you may not read",
    ):
        assert words in text
    assert "Jobs over time" not in text, "a Gantt plot is for simulations"
    assert "a run that was evicted" in Reader(page(replace(day(), elapsed=True))).text


def test_the_policy_allows_our_style_alone() -> None:
    text = page(day())
    (css,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(sha256(css.encode()).digest()).decode()
    policy = next(value for name, value in Reader(text).attributes if name == "content" and "default-src" in value)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "@media (prefers-color-scheme:dark)" in css
    assert not re.search(r"url\((?!#)|@import|https?:", css)
    found = Reader(text)
    assert "style" not in [name for name, _ in found.attributes], "the policy allows no inline styles"
    assert not [value for _, value in found.attributes if "://" in value]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_nothing_to_the_page(name: str) -> None:
    text = page(day(name, name, name, name))
    assert foreign(text) == []
    assert printable(name) in Reader(text).text
    assert foreign(page(replace(day(name, name, name, name), elapsed=True))) == []


@given(name=st.text(min_size=1), reason=st.text())
def test_no_name_adds_anything_to_the_page(name: str, reason: str) -> None:
    assert foreign(page(day(name, name, reason, name))) == []


def test_every_plot_has_a_name_and_every_id_is_there_once() -> None:
    found = Reader(page(replace(day(), elapsed=True)))
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, value in ((name, value) for name, value in found.attributes if name == "aria-labelledby"):
        assert set(value.split()) <= set(ids)
    used = [one for _, value in found.attributes for one in re.findall(r"url\(#([^)]*)\)", value)]
    assert set(used) <= set(ids)


def test_a_page_of_nothing_says_so() -> None:
    text = Reader(page(Material("Report", Period(hour(0), hour(1)), hour(0), ""))).text
    for words in (
        "No job held quota",
        "There were no jobs",
        "No job waited",
        "No job was preempted",
        "is not known here",
    ):
        assert words in text


def test_from_when_on_it_knows() -> None:
    assert span(day()) == "2026-03-02 00:00 to 2026-03-03 00:00 (UTC)."
    asked = replace(day(), asked_since=hour(-24 * 6))
    assert span(asked).endswith("You asked for 7 d; the data begin later.")
    assert span(replace(day(), elapsed=True)) == "1 d of virtual time."


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (Calibration(0, 0), "No job has started yet"),
        (Calibration(10, 8), "less reliable than they claim"),
        (Calibration(10, 3), "not reliable"),
    ],
)
def test_calibration_is_judged(known: Calibration, words: str) -> None:
    assert words in Reader(page(replace(day(), calibration=known))).text
