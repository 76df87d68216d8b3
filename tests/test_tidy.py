"""Is the tree tidy? Each check lists, as sentences, what is out of order in a tree and what to do about it."""

import ast
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests import moduletests

ROOT = Path(__file__).resolve().parent.parent

LINES_MAX = 500
LONGER_FOR_A_REASON: dict[str, str] = {}
"""Modules that may be longer than LINES_MAX, by path from the root, each with the reason why it is one question."""

BANNED_WORDS = frozenset({"util", "utils", "helper", "helpers", "common", "misc"})
NOT_PRODUCT = frozenset({".git", ".venv", ".hypothesis", "__pycache__", "build", "dist", "node_modules"})
LEFT_BEHIND = ("_cache", ".egg-info")

RULES = "docs/spec/rules.md"
STORIES = "tests/scenarios"
RULE_ID = re.compile(r"[A-Z]{3}-\d+")
RULE_DEFINED = re.compile(r"^- \*\*([A-Z]{3}-\d+)\*\*", re.MULTILINE)
RULE_CITED = re.compile(r"#\s*spec:(.*)")
CLAIMED = re.compile(r"^[ \t]*@covers\(([^)]*)\)", re.MULTILINE)
"""The decorator by which a test in Python says that it holds a rule."""

# Written in pieces, so that this file does not hold what it looks for.
FOREIGN = (
    (re.compile("/" + "work/"), "names a path of one machine; write it relative to the repository"),
    (re.compile(r"\.\./" + "shared"), "names a folder outside the repository; say it in our own documents"),
    (
        re.compile(r"https?://[^/\s{]*(?:py" + "pi|pythonhosted|registry|artifact|nexus|proxy|mirror)"),
        "links to a package registry; name the package alone, and for a lock file run `make pins`",
    ),
    (
        re.compile(r"--(?:extra-)?index-url[ =]\S*:" + "//"),
        "fixes a package index; leave that to the machine's own settings",
    ),
)

STANDS_STILL = re.compile(r"\basyncio\.(?:timeout|timeout_at|wait_for)\(|\.call_later\(|\.call_at\(|\bloop\.time\(\)")
"""What goes by CLOCK_MONOTONIC alone, which stands still while the machine is suspended."""
TIMERS = "src/pykueue/base/timers.py"
MEASURES = "src/pykueue/controllers/metrics/watchdog.py"
"""Measures how late a timer of the loop is; a suspend holds nobody up."""

ENGINE = "src/pykueue/engine"
VERBS = "src/pykueue/apiserver/verbs"
STRATEGIES = "src/pykueue/apiserver/kinds/strategy.py"


def python_files(root: Path, *folders: str) -> list[Path]:
    """The Python files in these folders, in order."""
    found = (path for folder in folders for path in (root / folder).rglob("*.py"))
    return sorted(path for path in found if NOT_PRODUCT.isdisjoint(path.relative_to(root).parts))


def product_files(root: Path) -> Iterator[Path]:
    """Every file that is ours: all but what tools leave behind."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in NOT_PRODUCT and not name.endswith(LEFT_BEHIND))
        # In a worktree .git is a file, so the names of files are looked at too.
        yield from (Path(folder) / name for name in sorted(names) if name not in NOT_PRODUCT)


def rules_defined(root: Path) -> list[str]:
    """The ids of the rules in the specification, in its order; none where it is not written yet."""
    page = root / RULES
    return RULE_DEFINED.findall(page.read_text()) if page.is_file() else []


def rules_cited(root: Path) -> list[tuple[str, str]]:
    """(id, place) of each `# spec:` comment in src; a comment may name several ids, with commas."""
    return [
        (rule.strip(), f"{path.relative_to(root)}:{number}")
        for path in python_files(root, "src")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for cited in RULE_CITED.findall(line)
        for rule in cited.split(",")
    ]


def covers(node: object) -> Iterator[str]:
    """Every id in a `covers` list, however deep in the story file."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "covers" and isinstance(value, list):
                yield from map(str, value)
            else:
                yield from covers(value)
    elif isinstance(node, list):
        for value in node:
            yield from covers(value)


def rules_covered(root: Path) -> dict[str, str]:
    """Each id that a story, or a test marked with `@covers`, covers, and a file in which one does."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    claimed = {
        rule: str(path.relative_to(root))
        for path in python_files(root, "tests")
        for ids in CLAIMED.findall(path.read_text())
        for rule in re.findall(r"[\"']([^\"']+)[\"']", ids)
    }
    return claimed | {
        rule: str(path.relative_to(root))
        for path in sorted((root / STORIES).glob("**/*.yaml"))
        for document in yaml.load_all(path.read_text(), Loader=loader)
        for rule in covers(document)
    }


def modules_without_docstring(root: Path) -> list[str]:
    """Modules without a docstring, and packages that hold code of their own."""
    broken = []
    for path in python_files(root, "src"):
        name, text = path.relative_to(root), path.read_text()
        if path.name == "__init__.py":
            if text.strip():
                broken.append(f"{name}: holds something; leave it empty, and move its content to a module with a name")
        elif not ast.get_docstring(ast.parse(text)):
            broken.append(f"{name}: has no docstring; begin it with what the module provides")
    return broken


def modules_too_long(root: Path) -> list[str]:
    """Modules longer than LINES_MAX without a reason, and reasons nobody needs any more."""
    broken = []
    for path in python_files(root, "src"):
        name, lines = path.relative_to(root).as_posix(), len(path.read_text().splitlines())
        if lines > LINES_MAX and name not in LONGER_FOR_A_REASON:
            broken.append(
                f"{name}: {lines} lines; split it by what it provides, "
                f"or enter it in LONGER_FOR_A_REASON with the reason"
            )
        if lines <= LINES_MAX and name in LONGER_FOR_A_REASON:
            broken.append(f"{name}: only {lines} lines by now; take it out of LONGER_FOR_A_REASON")
    gone = [name for name in LONGER_FOR_A_REASON if not (root / name).is_file()]
    return broken + [f"{name}: is no module; take it out of LONGER_FOR_A_REASON" for name in gone]


def names_that_say_nothing(root: Path) -> list[str]:
    """Python files and their folders with a word in the name that fits anything."""
    broken = []
    for path in python_files(root, "src", "tests", "bench", "examples"):
        name = path.relative_to(root)
        for part in name.with_suffix("").parts:
            banned = sorted(BANNED_WORDS.intersection(part.lower().split("_")))
            if part.lower().startswith("base_"):
                banned.append("base_")
            broken += [f"{name}: {word!r} says nothing; name it for what it holds or decides" for word in banned]
    return broken


def rules_badly_defined(root: Path) -> list[str]:
    """A specification that is missing, or that defines a rule twice."""
    defined = rules_defined(root)
    if not defined:
        return [f"{RULES}: defines no rule; write each as a line that begins with `- **QUO-1**`"]
    twice = [rule for rule, times in Counter(defined).items() if times > 1]
    return [f"{RULES}: defines {rule} more than once; number the later one anew" for rule in twice]


def rules_without_one_home(root: Path) -> list[str]:
    """Rules that no code implements, or that two places do."""
    places: dict[str, list[str]] = {rule: [] for rule in rules_defined(root)}
    for rule, place in rules_cited(root):
        places.setdefault(rule, []).append(place)
    broken = []
    for rule, found in places.items():
        if not found:
            broken.append(f"{rule}: has no home in src; write `# spec: {rule}` beside the code that implements it")
        if len(found) > 1:
            homes = ", ".join(found)
            broken.append(
                f"{rule}: has {len(found)} homes, {homes}; keep the one that decides, and call it from the rest"
            )
    return broken


def rules_unknown(root: Path) -> list[str]:
    """Rules that code or a story names and the specification does not define."""
    defined = set(rules_defined(root))
    cited = [f"{place}: {rule!r} is no rule" for rule, place in rules_cited(root) if rule not in defined]
    covered = [
        f"{place}: covers {rule}, which is no rule"
        for rule, place in rules_covered(root).items()
        if RULE_ID.fullmatch(rule) and rule not in defined
    ]
    return [f"{found}; define it in {RULES}, or correct the id" for found in cited + covered]


def rules_without_story(root: Path) -> list[str]:
    """Rules that no story shows."""
    covered = rules_covered(root)
    return [
        f"{rule}: no story covers it; write one in {STORIES}/ with `covers: [{rule}]`"
        for rule in dict.fromkeys(rules_defined(root))
        if rule not in covered
    ]


def foreign_places(root: Path) -> list[str]:
    """Lines of our files that name a place outside the repository which others do not have."""
    broken = []
    for path in product_files(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a recording or an image: no line to read
            continue
        for pattern, remedy in FOREIGN:
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                broken.append(f"{path.relative_to(root)}:{line}: {remedy}")
    return broken


def timers_that_stand_still(root: Path) -> list[str]:
    """Timers of the product that do not count a suspend; the auditor shares no code with what it audits."""
    places = [
        f"{path.relative_to(root)}:{number}"
        for path in python_files(root, "src")
        if path not in (root / TIMERS, root / MEASURES) and "audit" not in path.relative_to(root).parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if STANDS_STILL.search(line)
    ]
    return [
        f"{place}: does not count a suspend; use `timeout`, `waited`, `Timer` or `uptime` of {TIMERS}"
        for place in places
    ]


def reads_of_engine_memory(root: Path) -> list[str]:
    """Attribute reads such as `engine.world` outside the engine, whose layout is its own business."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: reads the engine's memory; use the methods of `Engine`, or `tally`"
        for path in python_files(root, "src")
        if not path.is_relative_to(root / ENGINE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "world" and last_name(node.value).endswith("engine")
    ]


def last_name(node: ast.expr) -> str:
    """The name of a variable, attribute or function that an expression ends with; empty for any other expression."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
        case _:
            return ""


def is_kind_name(node: ast.expr) -> bool:
    """Whether an expression is the name of a kind: `x.storage`, `x.resource.kind` or `resource.kind`."""
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.attr == "storage" or (node.attr == "kind" and owner == "resource")


def is_fixed(node: ast.AST) -> bool:
    """Whether an expression is a literal, a constant, or the text of one, as `str(PODS)`."""
    match node:
        case ast.Constant() | ast.Tuple() | ast.List() | ast.Set():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.Call(func=ast.Name(id="str"), args=inner):
            return any(map(is_fixed, inner))
    return False


def kinds_told_apart(root: Path) -> list[str]:
    """Places in the verbs of the API server that compare the name of a kind with a literal or a constant."""
    return [
        f"{path.relative_to(root)}:{line}: treats a kind by its name; add a column to `Strategy` in {STRATEGIES}"
        for path in python_files(root, VERBS)
        for node in ast.walk(ast.parse(path.read_text()))
        for line in kind_comparisons(node)
    ]


def kind_comparisons(node: ast.AST) -> Iterator[int]:
    """The line of a node that compares the name of a kind with a literal or a constant."""
    match node:
        case ast.Compare(left=left, comparators=others):
            if any(map(is_kind_name, (left, *others))) and any(map(is_fixed, (left, *others))):
                yield node.lineno
        case ast.Match(subject=subject) if is_kind_name(subject):
            yield subject.lineno


Check = Callable[[Path], list[str]]
CHECKS: tuple[Check, ...] = (
    modules_without_docstring,
    modules_too_long,
    names_that_say_nothing,
    rules_badly_defined,
    rules_without_one_home,
    rules_unknown,
    rules_without_story,
    foreign_places,
    timers_that_stand_still,
    reads_of_engine_memory,
    kinds_told_apart,
)


@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__.replace("_", " ")) for check in CHECKS])
def test_this_tree_has_no(check: Check) -> None:
    broken = check(ROOT)
    assert not broken, "\n".join(["", *broken])


def test_no_process_imports_modules_of_the_current_directory() -> None:
    """`python -m` does, unless it gets -P: the directory may belong to another user."""
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if 'sys.executable, "-m"' in line
    ]
    assert found == []


def test_every_module_has_tests() -> None:
    broken = list(moduletests.broken(ROOT, moduletests.covers(ROOT)))
    assert not broken, "\n".join(["", *broken])


TIDY = {
    "src/pykueue/__init__.py": "",
    "src/pykueue/quota.py": '"""How much is left?"""\n\n# spec: QUO-1\nLEFT = 1\n',
    "tests/scenarios/quota.yaml": "- name: one\n  covers: [QUO-1, S12]\n",
    f"{VERBS}/reading.py": '"""Reads."""\n\nSAME = other.storage == name or kind != served.resource.kind\n',
    RULES: "# Rules\n\n- **QUO-1** What is used is not left.\n",
}


def plant(root: Path, files: dict[str, str]) -> Path:
    """The folder, with these files in it."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("check", CHECKS)
def test_a_tidy_tree_passes(check: Check, tmp_path: Path) -> None:
    assert check(plant(tmp_path, TIDY)) == []


@pytest.mark.parametrize(
    ("check", "name", "text", "says"),
    [
        pytest.param(modules_without_docstring, "src/pykueue/a.py", "A = 1\n", "begin it with", id="no docstring"),
        pytest.param(modules_without_docstring, "src/pykueue/__init__.py", "A = 1", "leave it empty", id="not empty"),
        pytest.param(modules_too_long, "src/pykueue/a.py", "A = 1\n" * 501, "501 lines", id="one line too many"),
        pytest.param(names_that_say_nothing, "src/pykueue/job_utils.py", "", "'utils'", id="a word that says nothing"),
        pytest.param(names_that_say_nothing, "tests/common/test_a.py", "", "'common'", id="a folder that says nothing"),
        pytest.param(names_that_say_nothing, "src/pykueue/base_job.py", "", "'base_'", id="a base of something"),
        pytest.param(rules_badly_defined, RULES, "# Rules\n", "defines no rule", id="no rules yet"),
        pytest.param(rules_badly_defined, RULES, "- **QUO-1** a\n- **QUO-1** b\n", "more than once", id="one id twice"),
        pytest.param(rules_without_one_home, "src/pykueue/quota.py", "", "has no home", id="no home"),
        pytest.param(rules_without_one_home, "src/pykueue/a.py", "# spec: QUO-1\n", "has 2 homes", id="two homes"),
        pytest.param(rules_unknown, "src/pykueue/a.py", "A = 1  # spec: QUO-2\n", "'QUO-2' is no", id="cites no rule"),
        pytest.param(rules_unknown, "src/pykueue/a.py", "# spec: quota\n", "'quota' is no", id="not even an id"),
        pytest.param(rules_unknown, "tests/scenarios/a.yaml", "- covers: [PRE-9]\n", "PRE-9", id="covers no rule"),
        pytest.param(rules_without_story, "tests/scenarios/quota.yaml", "[]\n", "no story covers it", id="no story"),
        pytest.param(foreign_places, "Makefile", "all:\n\tls /wo" + "rk/main\n", "Makefile:2", id="a machine's path"),
        pytest.param(foreign_places, "a.txt", "http://reg" + "istry.example", "registry", id="a registry"),
        pytest.param(
            timers_that_stand_still,
            "src/pykueue/a.py",
            "asyncio.timeout(1)\n",
            "a.py:1",
            id="a timer that stands still",
        ),
        pytest.param(
            reads_of_engine_memory,
            "src/pykueue/sim/a.py",
            "ITEMS = pump.engine.world.items\n",
            "a.py:1: reads the engine's memory",
            id="a read of the engine's memory",
        ),
        *(
            pytest.param(kinds_told_apart, f"{VERBS}/a.py", f'"""A."""\n{text}\n', "a.py:2", id=f"a kind: {text[:24]}")
            for text in (
                'served.storage == "pods"',
                'call.served.storage not in ("pods", "nodes")',
                "served.storage in MADE_BY_UPDATE",
                "str(PODS) != served.storage",
                'resource.kind == "Job"',
                'match served.storage:\n    case "pods":\n        pass',
            )
        ),
        pytest.param(foreign_places, "a.txt", "--index-url https:" + "//example.org", "index", id="a package index"),
    ],
)
def test_an_untidy_tree_is_told_what_to_do(check: Check, name: str, text: str, says: str, tmp_path: Path) -> None:
    broken = check(plant(tmp_path, TIDY | {name: text}))
    assert len(broken) == 1
    assert says in broken[0]
