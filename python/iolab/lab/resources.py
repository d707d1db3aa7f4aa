"""What must exist on a host, as values: actions with their undo, and what reading back must show.

Nothing is executed here: `run/` gives these values to an agent.
"""

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
