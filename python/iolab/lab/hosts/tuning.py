"""Processor settings of a host, and queues, interrupts and pause frames of its NICs, as resources. Pure.

A host requests these settings for all its NICs that have a cable. A guest requests them for the NIC that its frames
pass through: the parent's port that a link joins to its guests, unless that port is a tap or a macvtap on a veth pair.
All original settings are restored.
"""

from collections.abc import Collection, Iterator
from itertools import product
from typing import Literal

from pydantic import BaseModel

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Host, HostTuning, Vm
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import (
    ORIGINAL,
    Command,
    Expectation,
    InterruptState,
    ProcessorState,
    Reading,
    Run,
    SpreadInterrupts,
    TuneProcessors,
)
from iolab.lab.dependencies import base_of
from iolab.lab.kernels import kernel_of
from iolab.lab.links.bridges import expect_interface
from iolab.lab.links.link_topology import Join, is_card, join_of, uplinks
from iolab.lab.readback.values import CardSettings, HardwareSettings, Interface, Value
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.locale import Phrase

PAUSE_LABELS = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}
"""Label in `ethtool -a` of each option of `ethtool -A`."""
CPU = "/sys/devices/system/cpu"
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
FILES = {
    "governor": f"{CPU}/cpufreq/policy*/scaling_governor",
    "turbo": f"{NO_TURBO} {CPU}/cpufreq/boost",
}
"""Files that contain each setting, as shell patterns."""
CONTRARY = {"on": "0", "off": "1"}
BOOST = {"on": "1", "off": "0"}


def traffic_cards(lab: Lab, name: str) -> tuple[PortRef, ...]:
    """Return the parent's ports that are NICs and that a guest's frames pass through.

    A port is a NIC if it is the NIC of a guest or has a cable.
    """
    links = [link for link, one in lab.links.items() if any(end.machine == name for end in one.ends)]
    ends = (end for link in links for end in uplinks(lab, link) if end.machine != name)
    return tuple(dict.fromkeys(end for end in ends if _is_real(lab, end)))


def tuned_cards(lab: Lab, name: str) -> tuple[PortRef, ...]:
    """Return the NICs to which the key `host` of a machine applies.

    For a host, these are its NICs with a cable; for a guest, the NICs of its parent.
    """
    if isinstance(lab.machines[name], Vm):
        return traffic_cards(lab, name)
    ends = (end for link in lab.links.values() if link.cable for end in link.ends)
    return tuple(dict.fromkeys(end for end in ends if end.machine == name))


def tunings(lab: Lab) -> dict[str, HostTuning]:
    """Return the settings of each NIC by its port, combined from its host and the guests that use it.

    Raises:
        InputError: two machines request different settings of one NIC.
    """
    found: dict[str, dict[str, tuple[str, object]]] = {}
    for name, machine in lab.machines.items():
        if not isinstance(machine, Vm | Host):
            continue
        wanted = {key: value for key, value in machine.host if value != getattr(HostTuning(), key)}
        for ref, (key, value) in product(tuned_cards(lab, name), wanted.items()):
            other, asked = found.setdefault(ref, {}).setdefault(key, (name, value))
            if asked != value:
                seen = Phrase("lab.card-set-twice", key=key, other=other, port=ref)
                allowed = Phrase("lab.one-setting-of-card")
                raise InputError(
                    [Problem(f"lab.machines.{name}.host.{key}", Phrase("lab.setting-a-card"), seen, allowed)]
                )
    return {
        ref: HostTuning.model_validate({key: value for key, (_, value) in asked.items()})
        for ref, asked in found.items()
    }


def tuning_resources(lab: Lab, topology: Topology, made: Collection[str]) -> Iterator[Resource]:
    """Return the resources that set queues and interrupts of NICs; the undo restores the original settings.

    `made` has the keys of existing resources: the queues of a guest's NIC are set when the NIC is created.

    Raises:
        InputError: two machines request different settings of one NIC.
    """
    asked = tunings(lab)
    for port in (port for port in topology.ports() if port.ref in asked):
        tuning, owner = asked[port.ref], lab.machines[port.machine]
        own, key = isinstance(owner, Vm), f"queues:{port.ref}"
        if tuning.queues is not None and not own:
            undo = Command(("ethtool", "-L", port.name, ORIGINAL))
            yield queues_resource(port, tuning.queues, base_of(lab, port), undo)
        if tuning.irq_cpus:
            queues = tuning.queues or (owner.queues if isinstance(owner, Vm) else None)
            first = (key,) if key in made or (tuning.queues is not None and not own) else ()
            yield _interrupts(port, tuning.irq_cpus, queues, (base_of(lab, port), *first))
        yield from card_settings(port, tuning, base_of(lab, port))


def _is_real(lab: Lab, ref: PortRef) -> bool:
    """Whether a port of a parent is a NIC."""
    joins = {join_of(lab, link) for link, one in lab.links.items() if ref in one.ends}
    return is_card(lab, ref) or Join.CABLE in joins


def queues_resource(port: Port, queues: int, need: str, undo: Command | None = None) -> Resource:
    """Return the resource that sets the number of active queue pairs.

    If the resource has an undo, its action reads the original number first.
    """
    show = Reading(Command(("ethtool", "-l", port.name)), HardwareSettings(("combined",)))
    change = Command(("ethtool", "-L", port.name, "combined", str(queues)))
    return Resource(
        key=f"queues:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(need,),
        actions=(Run(change, undo, show if undo else None),),
        expect=(Expectation(show, f"combined {queues}", f"queues of {port.ref}"),),
        held=True,
    )


def _interrupts(port: Port, cpus: tuple[int, ...], queues: int | None, needs: tuple[str, ...]) -> Resource:
    what = f"CPUs that take the interrupts of {port.ref}"
    return Resource(
        key=f"interrupts:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=needs,
        actions=(SpreadInterrupts(port.name, cpus, queues),),
        expect=(Expectation(Reading(InterruptState(port.name), Value()), cpu_ranges(cpus), what),),
        held=True,
    )


def cpu_ranges(cpus: tuple[int, ...]) -> str:
    """Return CPUs as a list in kernel syntax: "0-2,5"."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def coalescing_words(asked: BaseModel) -> dict[str, str]:
    """Return the coalescing or pause settings as ethtool options."""
    values = asked.model_dump(exclude_none=True)
    return {name.replace("_", "-"): str(value) for name, value in values.items()}


def card_settings(port: Port, asked: HostTuning, need: str) -> Iterator[Resource]:
    """Return the resource that sets interrupt coalescing and pause frames of a NIC.

    A change may take the link down for seconds, so the carrier is awaited.
    """
    if words := coalescing_words(asked.coalesce):
        yield _set(port, "coalesce", ("-C", "-c"), words, {word: word for word in words}, need)
    if words := coalescing_words(asked.pause):
        yield _set(port, "pause", ("-A", "-a"), words, {word: PAUSE_LABELS[word] for word in words}, need)


def _set(
    port: Port, what: str, options: tuple[str, str], words: dict[str, str], labels: dict[str, str], need: str
) -> Resource:
    change, show = options
    reading = Reading(Command(("ethtool", show, port.name), port.netns), CardSettings(tuple(labels.items())))
    flat = tuple(word for pair in words.items() for word in pair)
    return Resource(
        key=f"{what}:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(need,),
        actions=(
            Run(
                Command(("ethtool", change, port.name, *flat), port.netns),
                Command(("ethtool", change, port.name, ORIGINAL), port.netns),
                reading,
            ),
        ),
        expect=(
            Expectation(reading, " ".join(flat), f"{what} of {port.ref}"),
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}"),
        ),
        held=True,
    )


def processor_resources(lab: Lab) -> Iterator[Resource]:
    """Return the resources that set the processors of each host."""
    for name, machine in lab.machines.items():
        if isinstance(machine, Host):
            if machine.processors.governor is not None:
                yield _tuned(lab, name, "governor", machine.processors.governor)
            if machine.processors.turbo is not None:
                yield _tuned(lab, name, "turbo", machine.processors.turbo)


def _tuned(lab: Lab, name: str, what: Literal["governor", "turbo"], value: str) -> Resource:
    return Resource(
        key=f"{what}:{name}",
        machine=name,
        kernel=kernel_of(lab, name),
        actions=(TuneProcessors(what, value),),
        expect=(Expectation(Reading(ProcessorState(what), Value()), value, f"{what} of {name}"),),
        held=True,
    )


def processor_word(wanted: TuneProcessors, path: str) -> str:
    """Return the word to write to a file for a processor setting."""
    if wanted.what == "governor":
        return wanted.value
    return (CONTRARY if path == NO_TURBO else BOOST)[wanted.value]
