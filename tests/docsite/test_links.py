"""Does every link of the documentation lead somewhere, to a page, a file or a heading?"""

from pathlib import Path

import pytest

from tests.docsite.links import broken
from tests.docsite.pages import Link, anchors, links, pages, slug
from tests.storyfile import ROOT


def test_no_link_of_this_repository_is_broken() -> None:
    assert broken(ROOT) == []


def test_the_pages_are_found() -> None:
    found = pages(ROOT)
    assert {"README.md", "docs/tasks/quotas.md", "docs/spec/rules.md", "examples/borrowing/README.md"} <= set(found)
    assert {"deploy/helm/README.md", "bench/race/README.md", "docs/adr/README.md"} <= set(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[a](b.md)", "b.md: there is no such file", id="a page"),
        pytest.param("![a](c.svg)", "c.svg: there is no such file", id="a picture"),
        pytest.param("# Here\n\n[a](#there)", "#there: there is no such heading", id="a heading of the page"),
        pytest.param("[a](other.md#x)", "other.md#x: there is no such heading", id="a heading of another page"),
        pytest.param("[a](/other.md)", "begins with a slash", id="an absolute path"),
        pytest.param("[a](empty)", "is a folder without a README.md", id="a folder"),
        pytest.param("[a\nb](gone.md)", "docs/page.md:2: gone.md", id="a link over two lines"),
    ],
)
def test_a_broken_link_is_found(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "docs/empty").mkdir(parents=True)
    (tmp_path / "docs/other.md").write_text("# Other\n")
    (tmp_path / "docs/page.md").write_text(text)
    (found,) = broken(tmp_path)
    assert says in found


def test_links_in_code_are_none_and_those_to_the_world_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "`[a](b.md)` [x](https://example.org/)\n\n```sh\n[a](b.md)\n```\n<!-- [c](d.md) -->\n"
    )
    assert broken(tmp_path) == []


def test_a_link_has_a_path_and_an_anchor() -> None:
    (link,) = links("one\ntwo [a](b.md#c-d)")
    assert (link, link.path, link.anchor, link.leaves) == (Link(2, "b.md#c-d"), "b.md", "c-d", False)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Why it waits", "why-it-waits"),
        ("On one machine: where `pykueue up` differs", "on-one-machine-where-pykueue-up-differs"),
        ("[Linked](x.md) and *bold*", "linked-and-bold"),
        ("a / b", "a--b"),
    ],
)
def test_names_of_headings_are_those_of_git_hosts(heading: str, name: str) -> None:
    assert slug(heading) == name
    assert anchors(f"# {heading}\n\n## {heading}\n") == {name, f"{name}-1"}
