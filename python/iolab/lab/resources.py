"""Resources as values: actions with their undo, expectations of read-back, and the difference between two labs.

Nothing is executed in this module: `run/` passes the values to an agent.
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
    """An object that must exist in a lab."""

    key: str
    """Key, unique in a lab and stable between labs: "netns:near", "veth:west", "address:near.eth0"."""
    machine: str
    """The machine to which the resource belongs."""
    kernel: str = ""
    """Machine whose kernel has the resource, and whose agent creates it; empty: the local host."""
    needs: tuple[str, ...] = ()
    """Keys of the resources that must exist first."""
    actions: tuple[Action, ...] = ()
    """Actions that create the resource, in order; the undo runs in reverse order."""
    expect: tuple[Expectation, ...] = ()
    """Expectations that the values read back must meet while the resource exists."""
    settle_ns: int = 0
    """Time from a change of the resource, or of a dependent resource on its kernel, until the resource is in its final
    state, if no reading shows this state; 0: the expectations show this state [ns]."""
    undone_first: bool = False
    """True: the effects of the resource may extend beyond its namespace, so it is undone before the namespace is
    removed."""
    held: bool = False
    """True: a change only runs the new actions, without an undo in between; the first original value is kept."""


def undo_keys(resource: Resource) -> tuple[str, ...]:
    """Return the journal keys under which the agent keeps the undo of a resource, in the order of the actions.

    Commands are journalled under the key of the resource; the agent names namespaces and settings itself. Only the
    agent that ran `SpreadInterrupts` or `TuneProcessors` knows which settings it wrote.
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
    """Return the IDs of the reference devices and emulated links that a resource starts, each with the agent method
    that stops it."""
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
    """The changes from one lab to the next."""

    undo: tuple[Resource, ...]
    """Resources to undo first, each before those that it needs."""
    do: tuple[Resource, ...]
    """Resources to create afterwards, each after those that it needs."""
    in_place: frozenset[str] = frozenset()
    """Keys in `do` of existing resources that are changed in place: they keep their first undo and original value."""


def difference(standing: Sequence[Resource], wanted: Sequence[Resource]) -> Change:
    """Return the changes from `standing` to `wanted`; both are in dependency order, as `compose` returns them.

    A resource is changed only if its actions differ or a resource that it needs is undone. The expectations are always
    those of `wanted`.
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
    """Return the keys to undo: those of absent or recreated resources, and of all resources that need one of them.

    A new requirement of an existing resource (a new member of a bridge) is no reason to recreate it: only a change of
    its actions is such a reason.
    """
    gone: set[str] = set()
    for resource in standing:
        new = after.get(resource.key)
        rebuilt = new is not None and not _stays(resource, new)
        if new is None or rebuilt or any(key in gone for key in resource.needs):
            gone.add(resource.key)
    return gone


def _stays(old: Resource, new: Resource) -> bool:
    """Whether a resource need not be undone, because it is unchanged or can be changed in place."""
    if (old.machine, old.kernel) != (new.machine, new.kernel):
        return False
    return old.actions == new.actions or (old.held and new.held)


def settling_ns(done: Iterable[Resource], wanted: Sequence[Resource]) -> int:
    """Return the time to wait after changes until the lab is in its final state [ns]."""
    changed = {(resource.key, resource.kernel) for resource in done}
    times = [0]
    for card in wanted:
        if card.settle_ns:
            touched = {card.key, *dependents(wanted, [card.key])}
            if any(key in touched and kernel == card.kernel for key, kernel in changed):
                times.append(card.settle_ns)
    return max(times)


def dependents(resources: Iterable[Resource], keys: Collection[str]) -> frozenset[str]:
    """Return the keys of the resources that need one of `keys`, directly or indirectly.

    Such resources are undone before the guests that have their taps, because the taps disappear with the guests.
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
    """Return the resources in groups that can be created in parallel: each needs only resources in earlier groups."""
    depth: dict[str, int] = {}
    groups: list[list[Resource]] = []
    for resource in resources:
        level = 1 + max((depth[key] for key in resource.needs if key in depth), default=-1)
        depth[resource.key] = level
        if level == len(groups):
            groups.append([])
        groups[level].append(resource)
    return groups
