"""Which stories does a file tell, does the engine tell them too, and how is a file brought up to date?"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import yaml

from tests.story import Story
from tests.storytelling import Line, matches, read, retold
from tests.storywords import StoryError, names, options, tokens, unknown

ROOT = Path(__file__).resolve().parent.parent
STORIES = "tests/scenarios"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
WIDTH = 120

STORY_WORDS = (
    "name", "covers", "why", "options", "flavors", "cohorts", "queues", "locals", "namespaces", "checks", "steps",
)  # fmt: skip
STEP_WORDS = (
    "after", "do", "cycles", "decides", "decides_some", "pending", "parked", "holding", "used", "available",
    "potential", "shows",
)  # fmt: skip
PLAIN = re.compile(r"[\w/][^,\[\]{}#\"':&*!|>%@`]*(?:[:&*|@][^\s,\[\]{}#\"'][^,\[\]{}#\"':&*!|>%@`]*)*")
"""A line that can stand in a YAML list without quotes."""
REMARK = re.compile(r"[ \t]*(?:\|-?)?[ \t]+(#[^\n]*)\n")
"""A comment on the line of a block's key."""

Tree = Mapping[str, object]


class Told:
    """A story in a file: what it says, and where it says it."""

    def __init__(self, path: Path, tree: Tree, node: yaml.Node) -> None:
        self.path = path
        self.tree = tree
        self.node = node
        self.name = str(tree.get("name", ""))

    def __repr__(self) -> str:
        return f"{self.path.name}:{self.name}"

    @property
    def where(self) -> str:
        """File and line."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.node.start_mark.line + 1}"


def story_files(root: Path = ROOT) -> list[Path]:
    """All files of stories."""
    return sorted((root / STORIES).glob("**/*.yaml"))


def stories(path: Path) -> list[Told]:
    """The stories of a file, in its order."""
    loader = LOADER(path.read_text())
    try:
        node = loader.get_single_node()
        trees = [] if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise StoryError(f"{path}: {error}") from None
    finally:
        loader.dispose()
    if not isinstance(trees, list):
        raise StoryError(f"{path}: a file of stories is a list; begin each with `- name: ...`")
    found: list[Told] = []
    for tree, inner in zip(trees, node.value if node is not None else (), strict=True):
        if not isinstance(tree, dict) or not tree.get("name"):
            raise StoryError(f"{path}:{inner.start_mark.line + 1}: a story begins with `- name: ...`")
        told = Told(path, tree, inner)
        if any(other.name == told.name for other in found):
            raise StoryError(f"{told.where}: there is another story {told.name!r} in this file; name them apart")
        found.append(told)
    return found


def lines(value: object) -> list[str]:
    """Lines, written as a list, or as a block of text with one line each."""
    if value is None:
        return []
    if isinstance(value, str):
        return [line for line in value.splitlines() if line.strip()]
    if not isinstance(value, list):
        raise StoryError(f"{value!r} is no list of lines")
    # `- wait w (Reason): message` is a mapping to YAML; put it together again.
    return [": ".join(map(str, next(iter(one.items())))) if isinstance(one, dict) else str(one) for one in value]


def begin(tree: Tree) -> Story:
    """The story's cluster before its first step."""
    for word in tree:
        if word not in STORY_WORDS:
            raise unknown(str(word), "a story", STORY_WORDS)
    chosen = tree.get("options") or {}
    if not isinstance(chosen, dict):
        raise StoryError("options: write a mapping of fields")

    def listed(word: str) -> list[str] | None:
        return lines(tree[word]) if word in tree else None

    return Story(
        options=options(chosen),
        flavors=listed("flavors"),
        cohorts=listed("cohorts") or (),
        queues=listed("queues") or (),
        locals=listed("locals"),
        namespaces=listed("namespaces") or (),
        checks=listed("checks"),
    )


def take(story: Story, step: Tree) -> list[Line]:
    """Everything that is decided in a step: while time passes, and after its facts."""
    for word in step:
        if word not in STEP_WORDS:
            raise unknown(str(word), "a step", STEP_WORDS)
    cycles = step.get("cycles")
    if cycles is not None and not isinstance(cycles, int):
        raise StoryError(f"cycles: {cycles!r} is no whole number")
    told: list[Line] = []
    if "after" in step:
        story.wait(str(step["after"]))
        told += story.told
    story.do(*lines(step.get("do")))
    if cycles != 0:
        story.decide(cycles)
        told += story.told
    return told


def differences(story: Story, step: Tree) -> Iterator[str]:
    """Where things do not stand as a step says."""
    known: dict[str, Callable[[str], list[str]]] = {
        "pending": story.queued,
        "parked": story.parked,
        "holding": story.holding,
    }
    for word, look in known.items():
        for name, value in entries(step, word):
            expected = names(tokens(value) if isinstance(value, str) else lines(value))
            found = look(name)
            if (expected if word == "pending" else sorted(expected)) != found:
                yield f"{word}: {{{name}: [{', '.join(expected)}]}} is not so, but {{{name}: [{', '.join(found)}]}}"
    for word in ("used", "available", "potential"):
        for name, value in entries(step, word):
            found_text = story.amounts(word, name, str(value))
            if found_text != " ".join(tokens(str(value))):
                yield f"{word}: {{{name}: {value}}} is not so, but {{{name}: {found_text}}}"
    for line in lines(step.get("shows")):
        found_text = story.shown(line)
        if found_text != " ".join(tokens(line)):
            yield f"shows: {line!r} is not so, but {found_text!r}"


def entries(step: Tree, word: str) -> list[tuple[str, object]]:
    """The entries of a mapping in a step."""
    value = step.get(word) or {}
    if not isinstance(value, dict):
        raise StoryError(f"{word}: write a mapping, as in {{main: ...}}")
    return [(str(name), inner) for name, inner in value.items()]


def play(told: Told) -> dict[int, list[Line]]:
    """Play a story. Gives the lines that `decides` should have, by step, where it says otherwise."""
    wrong: dict[int, list[Line]] = {}
    place = f"{told.where}: {told.name!r}"
    try:
        story = begin(told.tree)
        steps = told.tree.get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise StoryError("a story has `steps:`, a list of mappings")
        for number, step in enumerate(steps, start=1):
            place = f"{told.where}: {told.name!r}, step {number}"
            decided = take(story, step)
            if "decides" in step:
                expected = [read(line) for line in lines(step["decides"])]
                if not matches(expected, decided, some=False):
                    wrong[number - 1] = retold(expected, decided)
            if "decides_some" in step:
                some = [read(line) for line in lines(step["decides_some"])]
                if not matches(some, decided, some=True):
                    raise StoryError(disagreement("decides_some", some, retold(some, decided)))
            if number - 1 not in wrong:
                for sentence in differences(story, step):
                    raise StoryError(sentence)
    except StoryError as error:
        raise StoryError(f"{place}: {error}{also(wrong)}") from None
    return wrong


def also(wrong: dict[int, list[Line]]) -> str:
    """The first step before an error whose decisions already differed."""
    for number, found in wrong.items():
        return f"\n(before that, step {number + 1} decided:\n{block(found)})"
    return ""


def check(told: Told) -> None:
    """Fail, with lines to paste, unless the engine tells this story as the file does."""
    for number, found in play(told).items():
        steps = told.tree["steps"]
        assert isinstance(steps, list)
        expected = [read(line) for line in lines(steps[number]["decides"])]
        text = disagreement("decides", expected, found)
        raise StoryError(f"{told.where}: {told.name!r}, step {number + 1}: {text}")


def disagreement(word: str, expected: list[Line], found: list[Line]) -> str:
    """Expected and decided, one above the other."""
    return f"the engine decides otherwise\n  {word} in the file:\n{block(expected)}\n  decided:\n{block(found)}"


def block(found: list[Line]) -> str:
    """Lines as they can be pasted under `decides: |`."""
    return "\n".join(f"        {line}" for line in found) or "        (nothing)"


# Rewriting.


def rewrite(told: Told) -> bool:
    """Write what the engine decides into the file, touching nothing else; whether anything was to be written."""
    wrong = play(told)
    if not wrong:
        return False
    text = told.path.read_text().splitlines(keepends=True)
    steps = value_of(told.node, "steps")[1]
    for number in sorted(wrong, reverse=True):
        step = steps.value[number]
        key, value = value_of(step, "decides")
        put(text, key, value, wrong[number], in_flow=bool(step.flow_style))
    told.path.write_text("".join(text))
    return True


def value_of(node: yaml.Node, word: str) -> tuple[yaml.Node, yaml.Node]:
    """The key and value nodes of a mapping's entry."""
    found: tuple[yaml.Node, yaml.Node] = next(pair for pair in node.value if pair[0].value == word)
    return found


def put(text: list[str], key: yaml.Node, value: yaml.Node, found: list[Line], *, in_flow: bool) -> None:
    """Replace the text of one `decides`, and keep a comment behind it."""
    first, start = key.start_mark.line, key.end_mark.column + 1
    end = end_of(value)
    before, after = "".join([*text[:first], text[first][:start]]), text_from(text, end.line, end.column)
    removed = "".join(text)[len(before) : len("".join(text)) - len(after)]
    kept = removed[len(removed.rstrip()) :]
    remark = REMARK.match(removed)
    behind = f"  {remark[1]}" if remark is not None else ""
    said = [str(line) for line in found]
    plain = all(PLAIN.fullmatch(line) for line in said)
    flow = f" [{', '.join(line if PLAIN.fullmatch(line) else json.dumps(line, ensure_ascii=False) for line in said)}]"
    several = any("\n" in line for line in said)
    if in_flow or several or (plain and start + len(flow) <= WIDTH):
        new = flow + behind
    else:
        indent = " " * (key.start_mark.column + 2)
        new = f" |{behind}\n" + "\n".join(indent + line for line in said)
    text[:] = (before + new + kept + after).splitlines(keepends=True)


def end_of(value: yaml.Node) -> yaml.Mark:
    """Where a value ends. A block ends with its last item, not where the next key begins."""
    while isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        value = last[1] if isinstance(last, tuple) else last
    return value.end_mark


def text_from(text: list[str], line: int, column: int) -> str:
    """The text from a place on."""
    return "".join([text[line][column:], *text[line + 1 :]]) if line < len(text) else ""
