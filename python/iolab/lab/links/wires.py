"""A link with `wire:` as resources: two taps with a thread of the agent between them, and what it does to frames.

What it does is a held resource of its own: another level changes it while the wire runs. Super-frames are carried whole
and impaired as the frames that they stand for.
"""

from collections.abc import Iterator, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.impairments import BILLION, Impairments
from iolab.lab.dependencies import port_dependencies
from iolab.lab.links.bridges import expect_interface
from iolab.lab.links.link_topology import home_of, mac_of
from iolab.lab.readback.values import Interface, Running
from iolab.lab.resources import (
    Command,
    Expectation,
    ImpairWire,
    Reading,
    Resource,
    Run,
    StartWire,
    WireState,
    Write,
)
from iolab.lab.topology import Port

FASTEST_BPS = 10 * BILLION
"""What a wire without a rate in bits is taken to carry."""
MARGIN_BYTES = 64 << 20
"""For frames that are read before those due are given: a thread may wait for its CPU."""
LONGEST_FRAME_BYTES = 9018
"""What a queue in frames may hold of each."""


def wire_memory(done: Impairments) -> int:
    """Return what the frames of one direction may take: rate times delay, the queue, and a margin [bytes]."""
    in_bits = done.rate is not None and done.rate.endswith("bit")
    bps = int(done.rate.removesuffix("bit")) if in_bits and done.rate else FASTEST_BPS
    held = done.reorder.by if done.reorder else 0
    stalled = done.stall.length if done.stall else 0
    waiting_ns = done.delay + 4 * done.jitter + held + stalled + (done.queue_time or 0)
    queue = done.queue or (done.queue_frames or (1000 if in_bits else 0)) * LONGEST_FRAME_BYTES
    return bps * waiting_ns // (8 * BILLION) + queue + MARGIN_BYTES


def wire_resources(lab: Lab, link: str, ports: Sequence[Port]) -> Iterator[Resource]:
    """Return the wire of a link, and what it does to frames."""
    here, there = ports
    done = lab.links[link].wire
    assert done is not None
    wire = f"wire:{link}"
    yield Resource(
        key=wire,
        machine=here.machine,
        kernel=home_of(lab, link),
        needs=port_dependencies(lab, here, there),
        actions=(
            StartWire(wire, ((here.netns, here.name), (there.netns, there.name))),
            *(action for port in ports for action in _open(lab, port)),
        ),
        expect=tuple(
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}")
            for port in ports
        ),
    )
    running = Expectation(Reading(WireState(wire), Running()), "running", f"the wire of link {link}")
    yield Resource(
        key=f"impairments:{link}",
        machine=here.machine,
        kernel=home_of(lab, link),
        needs=(wire,),
        actions=(ImpairWire(wire, done, wire_memory(done)),),
        expect=(running,),
        held=True,
    )


def _open(lab: Lab, port: Port) -> Iterator[Run | Write]:
    if port.netns is None and lab.machines[port.machine].kind == "host":
        path = f"/proc/sys/net/ipv6/conf/{port.name}/disable_ipv6"
        yield Write(path, None, "1", absent_ok=True)
    mac = mac_of(lab, port.ref)
    address = ("address", mac) if mac else ()
    yield Run(Command(("ip", "link", "set", "dev", port.name, *address, "up"), port.netns))
