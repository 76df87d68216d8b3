"""The past use of LocalQueues: an average of what their workloads use, which decays with a half-life.

Present use is sampled at intervals, so a job between two samples would be missed. A reservation is therefore charged
as if it had been in use for one interval: a charge is pending first, and becomes part of the past use when it settles.

Amounts are whole billionths, as in Kueue: each product is rounded down to nine decimals. `charges` says when a
workload is charged.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from math import inf, pow
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, NANO, Instant, Quantity, counts_in_milli, parse_quantity
from pykueue.engine.model import AdmissionFairSharing

Amounts = Mapping[str, int]
"""Billionths of each resource; zeros are left out."""
Stored = tuple[tuple[str, str], ...]
"""The same as quantities, for what is stored: billionths of a byte exceed 64 bits."""
MICRO_NANO: Final = 1_000_000
"""Billionths in a thousandth."""
CHARGES_MAX: Final = 4096
"""The most charges that are remembered by what they are for."""


class Charge(Frozen):
    """What a reservation costs its LocalQueue, until it settles or is dropped."""

    local_queue: str
    amounts: tuple[tuple[str, int], ...]
    stored: bool = False
    """Whether the reservation was stored; one that is refused costs nothing."""


class Holding(Frozen):
    """What a workload holds, as its LocalQueue counts it."""

    local_queue: str
    usage: tuple[tuple[str, int], ...]
    """By resource, in all flavors together."""
    admitted: bool
    held: tuple[tuple[int, int], ...] = ()
    """The same by the number of each pair of flavor and resource."""


class PresentUse:
    """What the workloads of a LocalQueue hold at present, whether the LocalQueue exists or not."""

    __slots__ = ("admitted", "reserved")

    def __init__(self) -> None:
        self.reserved: dict[str, int] = {}
        self.admitted: dict[str, int] = {}


class Account:
    """The past use of one LocalQueue."""

    __slots__ = ("at", "consumed", "pending", "value", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.consumed: dict[str, int] = {}
        self.at: Instant | None = None
        """Up to when `consumed` counts; None until the first decision."""
        self.pending: dict[str, int] = {}
        """The sum of the charges that have not settled."""
        self.value = 0.0
        """Its place among the LocalQueues of its ClusterQueue, the lowest first."""


class PastUse:
    """The accounts of all LocalQueues."""

    def __init__(self, settings: AdmissionFairSharing, by_reservation: Callable[[str], bool]) -> None:
        self.settings = settings
        self.by_reservation = by_reservation
        """Whether the workloads of a LocalQueue count from their reservation on rather than from their admission on."""
        self.weights = dict(settings.resource_weights)
        self.entry_share = ratio(growth(settings.sampling_micros, settings.half_life_micros))
        self.accounts: dict[str, Account] = {}
        self.present: dict[str, PresentUse] = {}
        self.holdings: dict[str, Holding] = {}
        """What is counted in `present`, by workload."""
        self.charges: dict[str, Charge] = {}
        """The charges that have not settled, by workload."""
        self.known_charges: dict[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = {}
        self.sample_number: int | None = None
        """The number of the interval in which the last samples were taken; None while another process decides."""

    # Accounts.

    def value(self, local_queue: str) -> float:
        """Return the place of a LocalQueue in the order, the lowest first; one that does not exist has used nothing."""
        account = self.accounts.get(local_queue)
        return 0.0 if account is None else account.value

    def open(self, local_queue: str, weight: float) -> Account:
        """Return the account of a LocalQueue, with this weight; creates it if there is none."""
        account = self.accounts.get(local_queue)
        if account is None:
            account = self.accounts[local_queue] = Account(weight)
        account.weight = weight
        self.revalue(account)
        return account

    def seed(self, account: Account, consumed: Iterable[tuple[str, int]], at: Instant | None) -> None:
        """Replace the past use of an account with what is stored in the status of its LocalQueue."""
        account.consumed = {resource: amount for resource, amount in consumed if amount > 0}
        account.at = at
        self.revalue(account)

    def close(self, local_queue: str) -> None:
        """Drop the account of a LocalQueue that was deleted, with its charges."""
        if self.accounts.pop(local_queue, None) is None:
            return
        for workload in [key for key, charge in self.charges.items() if charge.local_queue == local_queue]:
            del self.charges[workload]

    def revalue(self, account: Account) -> None:
        """Recompute the place of an account in the order."""
        account.value = value_of(account.consumed, account.pending, account.weight, self.weights)

    # Present use.

    def count(self, workload: str, holding: Holding | None) -> None:
        """Count what a workload holds at present in place of what it held before; None if it holds nothing."""
        before = self.holdings.get(workload)
        if before == holding:
            return
        if before is not None:
            del self.holdings[workload]
            self.book(before, -1)
        if holding is not None:
            self.holdings[workload] = holding
            self.book(holding, 1)

    def book(self, holding: Holding, sign: int) -> None:
        """Add what a workload holds to the present use of its LocalQueue, or remove it."""
        present = self.present.get(holding.local_queue)
        if present is None:
            present = self.present[holding.local_queue] = PresentUse()
        for resource, amount in holding.usage:
            change(present.reserved, resource, sign * amount)
            if holding.admitted:
                change(present.admitted, resource, sign * amount)
        if not present.reserved:
            del self.present[holding.local_queue]

    def in_use(self, local_queue: str) -> dict[str, int]:
        """Return what a sample of a LocalQueue adds to its past use."""
        present = self.present.get(local_queue)
        if present is None:
            return {}
        found = present.reserved if self.by_reservation(local_queue) else present.admitted
        return {resource: nanos_of(resource, amount) for resource, amount in found.items()}

    # Samples.

    def number(self, now: Instant) -> int:
        """Return the number of the sampling interval that an instant is in."""
        return now // self.settings.sampling_micros

    def next_sample(self, now: Instant) -> Instant:
        """Return when the sampling interval after that of an instant begins."""
        return Instant((self.number(now) + 1) * self.settings.sampling_micros)

    def begin(self, now: Instant) -> None:
        """Count from this instant on where an account has no instant, or one in the future since the clock was set."""
        for account in self.accounts.values():
            if account.at is None or account.at > now:
                account.at = now
        self.sample_number = self.number(now)

    def sample_all(self, now: Instant) -> None:
        """Sample every LocalQueue."""
        self.sample_number = self.number(now)
        for local_queue, account in self.accounts.items():
            if account.consumed or local_queue in self.present:
                self.sample(local_queue, account, now)
                self.revalue(account)
            else:
                account.at = now

    def sample(self, local_queue: str, account: Account, now: Instant) -> None:
        """Let the past use of a LocalQueue decay, and add its present use for the time since the last sample."""
        # spec: AFS-6
        if account.at is None or now >= account.at:
            account.consumed = self.sampled(local_queue, account, now)
            account.at = now

    def sampled(self, local_queue: str, account: Account, now: Instant) -> dict[str, int]:
        """Return the past use of a LocalQueue at an instant; the account does not change."""
        elapsed = 0 if account.at is None else max(0, now - account.at)
        if not self.settings.half_life_micros:
            return {}
        if not elapsed:
            return dict(account.consumed)
        return decayed(account.consumed, self.in_use(local_queue), elapsed, self.settings.half_life_micros)

    # Charges.

    def charge_for(self, requests: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """Return what a reservation for these total requests costs: as much as using them for one sampling interval."""
        found = self.known_charges.get(requests)
        if found is None:
            found = charge_of(requests, self.entry_share)
            if len(self.known_charges) >= CHARGES_MAX:
                self.known_charges.clear()
            self.known_charges[requests] = found
        return found

    def charge(self, workload: str, charge: Charge) -> None:
        """Add a charge, in place of one that the workload has already."""
        self.drop(workload)
        account = self.accounts.get(charge.local_queue)
        if account is None:
            return
        self.charges[workload] = charge
        for resource, amount in charge.amounts:
            change(account.pending, resource, amount)
        self.revalue(account)

    def drop(self, workload: str) -> Charge | None:
        """Remove the charge of a workload, and return it; None if it has none."""
        charge = self.charges.pop(workload, None)
        account = None if charge is None else self.accounts.get(charge.local_queue)
        if charge is not None and account is not None:
            for resource, amount in charge.amounts:
                change(account.pending, resource, -amount)
            self.revalue(account)
        return charge

    def drop_all(self) -> None:
        """Remove all charges, because another process decides from now on."""
        for workload in list(self.charges):
            self.drop(workload)
        self.sample_number = None

    def settle(self, workload: str, now: Instant) -> None:
        """Make the charge of a workload part of the past use of its LocalQueue, which is sampled first."""
        charge = self.drop(workload)
        account = None if charge is None else self.accounts.get(charge.local_queue)
        if charge is None or account is None:
            return
        if self.settings.half_life_micros:
            # Without a half-life, only a periodic sample clears what is stored.
            self.sample(charge.local_queue, account, now)
        for resource, amount in charge.amounts:
            change(account.consumed, resource, amount)
        self.revalue(account)


def change(amounts: dict[str, int], resource: str, amount: int) -> None:
    """Add to the amount of a resource, and leave out a resource whose amount becomes zero."""
    total = amounts.get(resource, 0) + amount
    if total:
        amounts[resource] = total
    else:
        amounts.pop(resource, None)


def sum_of(parts: Iterable[Amounts]) -> dict[str, int]:
    """Return the sum of some amounts."""
    found: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            change(found, resource, amount)
    return found


def stored(amounts: Iterable[tuple[str, int]]) -> Stored:
    """Return billionths of resources as quantities."""
    return tuple((resource, str(Quantity(amount))) for resource, amount in amounts)


def read(amounts: Stored) -> tuple[tuple[str, int], ...]:
    """Undo `stored`."""
    return tuple((resource, parse_quantity(text).nanos) for resource, text in amounts)


def nanos_of(resource: str, amount: int) -> int:
    """Return an amount of the engine in billionths."""
    return amount * (MICRO_NANO if counts_in_milli(resource) else NANO)


def growth(elapsed_micros: int, half_life_micros: int) -> float:
    """Return how far past use moves towards present use in this time."""
    # spec: AFS-1
    if not half_life_micros:
        return 0.0
    return 1.0 - pow(0.5, (elapsed_micros / MICROS) / (half_life_micros / MICROS))


@lru_cache(maxsize=4096)
def ratio(factor: float) -> tuple[int, int]:
    """Return the fraction that the shortest decimal form of a factor stands for."""
    return Decimal(repr(factor)).as_integer_ratio()


def scaled(amount: int, factor: tuple[int, int]) -> int:
    """Return the product of an amount of at least zero and a factor, rounded down."""
    return amount * factor[0] // factor[1]


def decayed(consumed: Amounts, in_use: Amounts, elapsed_micros: int, half_life_micros: int) -> dict[str, int]:
    """Return past use after some time in which this much was in use."""
    alpha = growth(elapsed_micros, half_life_micros)
    keep, add = ratio(1.0 - alpha), ratio(alpha)
    found = {resource: scaled(amount, keep) for resource, amount in consumed.items()}
    for resource, amount in in_use.items():
        found[resource] = found.get(resource, 0) + scaled(amount, add)
    return {resource: amount for resource, amount in found.items() if amount}


def charge_of(requests: Iterable[tuple[str, int]], share: tuple[int, int]) -> tuple[tuple[str, int], ...]:
    """Return a share of the total requests, in billionths."""
    totals: dict[str, int] = {}
    for resource, amount in requests:
        totals[resource] = totals.get(resource, 0) + amount
    charged = ((resource, scaled(nanos_of(resource, amount), share)) for resource, amount in sorted(totals.items()))
    return tuple((resource, amount) for resource, amount in charged if amount)


def value_of(consumed: Amounts, pending: Amounts, weight: float, weights: Mapping[str, float]) -> float:
    """Return past use and pending charges as one number: weighted by resource, and divided by the weight of the queue.

    Units are cores, bytes and pieces.
    """
    # spec: AFS-2
    if weight <= 0:
        return inf
    total = 0.0
    for resource in sorted({*consumed, *pending}):
        used = consumed.get(resource, 0) + pending.get(resource, 0)
        total += weights.get(resource, 1.0) * (used / NANO)
    return total / weight
