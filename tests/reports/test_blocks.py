"""Are blocks of a page accessible: tables with heads, keys with words, places that the keyboard can scroll?"""

from pykueue.reports.blocks import Column, Key, figure_of, folded, keys, notes, paragraph, table
from pykueue.reports.svg import Plot
from tests.reports.samples import Reader, foreign


def test_a_table_has_heads_of_columns_and_rows() -> None:
    made = table(
        "Waits", (Column("Queue"), Column("Jobs", end=True), Column("State", whole=True)), [("a", "1", "x")]
    ).text
    found = Reader(made)
    assert [value for name, value in found.attributes if name == "scope"] == ["col", "col", "col", "row"]
    assert found.text == "WaitsQueueJobsStatea1x"
    assert ("aria-label", "Waits") in found.attributes
    assert ("tabindex", "0") in found.attributes
    assert '<td class="end">1</td><td class="whole">x</td>' in made
    assert "caption" not in Reader(table("Waits", (Column("Queue"),), [], shown=False).text).elements


def test_a_key_has_a_drawing_and_words_for_each() -> None:
    kinds = ("use", "over", "nominal", "box", "box other", "median", "most", "waits", "run", "evicted", "edge-other")
    made = keys([Key(kind, f"means {kind}") for kind in kinds]).text
    found = Reader(made)
    assert foreign(made) == []
    assert found.elements.count("li") == found.elements.count("svg") == len(kinds)
    assert [value for name, value in found.attributes if name == "aria-hidden"] == ["true"] * len(kinds)
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_figures_notes_and_folded_parts() -> None:
    plot = Plot("p", "Title", "Description", 10, 10)
    assert Reader(figure_of(plot, label="L", caption="C").text).text == "LCTitleDescription"
    assert "figcaption" not in Reader(figure_of(plot, tall=True).text).elements
    assert Reader(folded("More", paragraph("x")).text).elements == ["details", "summary", "p"]
    assert notes([]) == []
    assert Reader(notes(["some is left out"])[0].text).text == "Some is left out"
