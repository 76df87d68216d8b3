"""What do tests of reports share? A day of two teams, with names of one's choice, and a reader of pages."""

from html.parser import HTMLParser

from pykueue.base.units import Instant, parse_instant
from pykueue.reports.curves import HOUR
from pykueue.reports.records import Calibration, Holding, Job, Material, Others, Period, Quota, Run

DAWN = parse_instant("2026-03-02T00:00:00Z")
HOSTILE = (
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg><a href='javascript:alert(1)'>x</a>",
    "]]><!-- <b>&amp;&lt;",
    "=HYPERLINK(1)\r\n+1",
    "\u202ereversed\x00\ud800\ufffe",
)
ELEMENTS = frozenset(
    {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "main",
            "section",
            "footer",
            "div",
            "span",
            "p",
            "ul",
            "li",
        ),
        *("h1", "h2", "h3", "dl", "dt", "dd", "figure", "figcaption", "details", "summary"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("svg", "desc", "defs", "pattern", "path", "rect", "line", "circle", "text"),
    }
)
ATTRIBUTES = frozenset(
    {
        *("lang", "charset", "name", "content", "http-equiv", "class", "id", "role", "scope", "tabindex"),
        *("aria-label", "aria-labelledby", "aria-hidden", "viewbox", "x", "y", "width", "height", "d", "fill"),
        *("x1", "x2", "y1", "y2", "cx", "cy", "r", "text-anchor", "patternunits"),
    }
)


def hour(number: float) -> Instant:
    """An instant of the day."""
    return Instant(DAWN + int(number * HOUR))


def day(
    name: str = "lab/train", queue: str = "red", reason: str = "needs 2 more cpu", flavor: str = "spot"
) -> Material:
    """A day: one job borrows and is preempted, one waits, one is of another queue."""
    jobs = (
        Job(
            name,
            queue,
            hour(1),
            2 * HOUR,
            "completed",
            hour(2),
            hour(8),
            reason,
            1,
            HOUR,
            {"cpu": 4000},
            (Run(hour(2), hour(3), evicted=True, lost=True), Run(hour(4), hour(8))),
            ((hour(1), hour(2)), (hour(3), hour(4))),
        ),
        Job(
            "lab/waits", queue, hour(20), 4 * HOUR, "waits", reason=reason, waits=((hour(20), hour(24)),), pending=True
        ),
        Job("lab/other", "blue", hour(5), 0, "running", hour(5), runs=(Run(hour(5), hour(24)),), running=True),
    )
    holdings = (
        Holding(queue, flavor, "cpu", 4000, hour(2), hour(3)),
        Holding(queue, flavor, "cpu", 4000, hour(4), hour(8)),
        Holding("blue", flavor, "cpu", 1000, hour(5), hour(24)),
    )
    quotas = (Quota(queue, flavor, "cpu", 2000), Quota("blue", flavor, "cpu", 2000))
    return Material(
        f"Report {name}",
        Period(hour(0), hour(24)),
        hour(0),
        f"From {name}.",
        jobs,
        holdings,
        quotas,
        (f"only {name} is shown",),
        (Others(queue, 3, 4),),
        Calibration(20, 18),
    )


class Reader(HTMLParser):
    """Collects the elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.odd: list[str] = []
        """Comments, declarations and processing instructions."""
        self.said: list[str] = []
        self.feed(page)
        self.close()
        self.text = "".join(self.said)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def handle_decl(self, decl: str) -> None:
        if decl != "DOCTYPE html":
            self.odd.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)


def foreign(page: str) -> list[str]:
    """What a page contains that we never write."""
    found = Reader(page)
    return [
        *(one for one in found.elements if one not in ELEMENTS),
        *(name for name, _ in found.attributes if name not in ATTRIBUTES),
        *found.odd,
    ]
