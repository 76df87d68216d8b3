"""Measure the speed of this machine: a fixed piece of plain Python, timed with every run, that scales the floors."""

import gc
from time import process_time
from typing import Final

ROUNDS: Final = 270
REFERENCE: Final = 0.140
"""CPU seconds of `work` on the idle machine where the floors were set: CPython 3.11, Intel Xeon, two shared cores."""
EXPECTED: Final = 16_301_905
"""The result of the work; other work would make old results incomparable."""


class Cell:
    """An object with attributes, like the engine's items."""

    __slots__ = ("key", "links", "total")

    def __init__(self, key: str) -> None:
        self.key = key
        self.total = 0
        self.links: dict[int, int] = {}


def work() -> int:
    """A checksum over every step: dictionaries, lists, attributes, calls, sorting and small numbers."""
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
    """CPU seconds of the work on this machine now."""
    collecting = gc.isenabled()
    # The work creates no reference cycles, and should not be charged for collections that the engine's objects cause.
    gc.disable()
    start = process_time()
    result = work()
    spent = process_time() - start
    if collecting:
        gc.enable()
    assert result == EXPECTED, f"the kernel came to {result}, not {EXPECTED}; measure REFERENCE again"
    return spent


def slowness(before: float) -> float:
    """How many times slower than the reference this machine is: `seconds` before a measurement, and now."""
    return (before + seconds()) / 2 / REFERENCE
