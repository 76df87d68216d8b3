"""How fast is this machine today? A fixed piece of plain Python, timed beside every run, that floors are scaled by."""

import gc
from time import process_time
from typing import Final

ROUNDS: Final = 270
REFERENCE: Final = 0.140
"""CPU seconds that `work` takes where the floors were set, when quiet: CPython 3.11, Intel Xeon, two shared cores."""
EXPECTED: Final = 16_301_905
"""What the work comes to; other work would make old results incomparable."""


class Cell:
    """Something with attributes, as the engine's items have."""

    __slots__ = ("key", "links", "total")

    def __init__(self, key: str) -> None:
        self.key = key
        self.total = 0
        self.links: dict[int, int] = {}


def work() -> int:
    """A sum that depends on every step: dictionaries, lists, attributes, calls, sorting and small numbers."""
    cells = [Cell(f"cell-{index}") for index in range(200)]
    seed = 1
    for _ in range(ROUNDS):
        for cell in cells:
            seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
            visit(cell, seed)
        cells.sort(key=lambda cell: (-cell.total, cell.key))
    by_key = {cell.key: cell for cell in cells}
    return sum(by_key[key].total for key in sorted(by_key)) & 0xFFFFFFFF


def visit(cell: Cell, seed: int) -> None:
    """Change one cell: a few lookups, a few additions, one short list."""
    links = cell.links
    for step in range(8):
        slot = seed >> step & 15
        links[slot] = links.get(slot, 0) + step
    busy = [slot for slot, amount in links.items() if amount > step]
    cell.total += sum(busy) + min(links.values())


def seconds() -> float:
    """CPU seconds that the work takes here and now."""
    collecting = gc.isenabled()
    # The work makes no garbage cycles, and must not pay for a collection that the engine's objects brought about.
    gc.disable()
    start = process_time()
    result = work()
    spent = process_time() - start
    if collecting:
        gc.enable()
    assert result == EXPECTED, f"the kernel came to {result}, not {EXPECTED}; it was changed, so set REFERENCE anew"
    return spent
