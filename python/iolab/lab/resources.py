"""What must exist on a host, as values: actions with their undo, what reading back must show; and how two labs differ.

Nothing is executed here: `run/` gives these values to an agent.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from iolab.frozen import frozen
from iolab.lab.actions import (
    Action,
    Command,
    CreateNetns,
    Expectation,
    Run,
    StartDevice,
    StartGuest,
    StartWire,
    Write,
)


@frozen(kw_only=True)
class Resource:
    """One thing that must exist in a lab."""

    key: str
    """Unique in a lab and stable between labs: "netns:near", "veth:west", "address:near.eth0"."""
    machine: str
    """The machine it belongs to."""
    kernel: str = ""
    """The machine on whose kernel it is made, and whose agent makes it; empty: this computer."""
    needs: tuple[str, ...] = ()
    """Keys of what must exist before it."""
    actions: tuple[Action, ...] = ()
    """What makes it, in order; undone in reverse."""
    expect: tuple[Expectation, ...] = ()
    """What reading back must show while it stands."""
    settle_ns: int = 0
    """How long it is not yet itself after a change to it, or to what stands on it on its kernel, where nothing tells
    when it is; 0: its expectations tell [ns]."""
    undone_first: bool = False
    """True: what it did may reach beyond its namespace, so it is undone before that goes."""
    held: bool = False
    """True: other content under the same key is reached by its actions alone; the first original is kept."""


def undo_keys(resource: Resource) -> tuple[str, ...]:
    """Return the journal keys under which the agent keeps the undo of a resource, in order of doing.

    Commands are journalled under the resource's own key; the agent names namespaces and settings itself. Which
    settings `SpreadInterrupts` and `TuneProcessors` write only the agent that wrote them knows.
    """
    keys: list[str] = []
    for action in resource.actions:
        match action:
            case CreateNetns(name):
                keys.append(f"netns:{name}")
            case Write(path, netns):
                keys.append(f"setting:{netns or ''}:{path}")
            case Run(undo=Command()):
                keys.append(resource.key)
            case _:
                pass
    return tuple(dict.fromkeys(keys))


def started(resource: Resource) -> dict[str, str]:
    """Return the reference devices and wires that a resource starts: the id of each, and the method that stops it."""
    found: dict[str, str] = {}
    for action in resource.actions:
        match action:
            case StartDevice(device):
                found[device] = "device.stop"
            case StartWire(wire):
                found[wire] = "wire.stop"
            case _:
                pass
    return found


def guests(resource: Resource) -> tuple[str, ...]:
    """Return the guests that a resource starts."""
    return tuple(action.guest.name for action in resource.actions if isinstance(action, StartGuest))


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
