"""What to undo and what to do so that one lab becomes another: only what changed, and what stands on it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from iolab.frozen import frozen
from iolab.lab.resources import Resource


@frozen
class Change:
    """The way from one lab to another."""

    undo: tuple[Resource, ...]
    """What goes first, each resource before what it needs."""
    do: tuple[Resource, ...]
    """What comes then, each after what it needs."""
    in_place: frozenset[str] = frozenset()
    """Keys in `do` that stand already: they keep the undo and the original of the first time."""


def difference(standing: Sequence[Resource], wanted: Sequence[Resource]) -> Change:
    """Return how `standing` becomes `wanted`; both in dependency order, as `compose` gives them.

    A resource is touched only where its actions differ or where something it needs goes away. What reading
    back must show is always that of `wanted`.
    """
    before = {resource.key: resource for resource in standing}
    after = {resource.key: resource for resource in wanted}
    gone = _gone(standing, after)
    undo = tuple(resource for resource in reversed(standing) if resource.key in gone)
    do = tuple(
        resource
        for resource in wanted
        if resource.key in gone
        or resource.key not in before
        or resource.actions != before[resource.key].actions
        or resource.machine != before[resource.key].machine
        or resource.kernel != before[resource.key].kernel
    )
    in_place = frozenset(
        resource.key for resource in do if resource.key in before and resource.key not in gone
    )
    return Change(undo, do, in_place)


def _gone(standing: Sequence[Resource], after: Mapping[str, Resource]) -> set[str]:
    """Return the keys that must be undone: absent or rebuilt ones, and all that needs one of them.

    A resource that stands may come to need something new (a bridge its next member): that alone is no reason
    to rebuild it, for its own actions say whether it changes.
    """
    gone: set[str] = set()
    for resource in standing:
        new = after.get(resource.key)
        rebuilt = new is not None and not _stays(resource, new)
        if new is None or rebuilt or any(key in gone for key in resource.needs):
            gone.add(resource.key)
    return gone


def _stays(old: Resource, new: Resource) -> bool:
    """Tell whether a resource need not be undone: nothing changes, or it can be changed in place."""
    if (old.machine, old.kernel) != (new.machine, new.kernel):
        return False
    return old.actions == new.actions or (old.held and new.held)


def settling_ns(done: Iterable[Resource], wanted: Sequence[Resource]) -> int:
    """Return how long to wait after changes until the lab is what it seems to be [ns]."""
    changed = {(resource.key, resource.kernel) for resource in done}
    times = [0]
    for card in wanted:
        if card.settle_ns:
            touched = {card.key, *dependents(wanted, [card.key])}
            if any(key in touched and kernel == card.kernel for key, kernel in changed):
                times.append(card.settle_ns)
    return max(times)


def dependents(resources: Iterable[Resource], keys: Collection[str]) -> frozenset[str]:
    """Return the keys of the resources that need one of `keys`, themselves or through others.

    Of what is undone, this is what goes before the guests that carry it: their taps vanish with them.
    """
    waiting = {resource.key: resource.needs for resource in resources}
    found: set[str] = set()
    grown = True
    while grown:
        more = {key for key, needs in waiting.items() if key not in found and not found.isdisjoint(needs)}
        more |= {key for key, needs in waiting.items() if key not in found and any(n in keys for n in needs)}
        grown = bool(more)
        found |= more
    return frozenset(found)


def waves(resources: Sequence[Resource]) -> list[list[Resource]]:
    """Return the resources in groups that can be done together: each needs only what stands before it."""
    depth: dict[str, int] = {}
    groups: list[list[Resource]] = []
    for resource in resources:
        level = 1 + max((depth[key] for key in resource.needs if key in depth), default=-1)
        depth[resource.key] = level
        if level == len(groups):
            groups.append([])
        groups[level].append(resource)
    return groups
