"""Virtual functions of a parent's card as resources (SR-IOV): made on the parent, then each given away.

A namespace gets its function as an interface; a guest's is left to vfio-pci, by which its hypervisor takes it. Between
the functions, and to the card's own port, frames go by the card's own switch.
"""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import FOUND, Command, Expectation, Reading, Run, Setting, Tell, Write
from iolab.lab.dependencies import base_of, port_dependencies, ports_of
from iolab.lab.links.link_topology import functions_of, is_card, is_function, mac_of, owner_of, uplinks
from iolab.lab.readback.values import Interface, InterfaceByMac, LastName, Value, VirtualFunction
from iolab.lab.resources import Resource
from iolab.lab.topology import Port, Topology
from iolab.messages.conflicts import (
    BridgedToCard,
    CardWithoutFunctions,
    ClashAtMachine,
    FunctionsTooMany,
    ParentPortAbsent,
)
from iolab.messages.places import ForMachine, ForPort, KeyOf, Purpose, ValueOf
from iolab.messages.unmet import PlainUnbuilt, UnmetRequirement

SHOW = ("ip", "-j", "-d", "addr", "show")
SHOW_FUNCTIONS = ("ip", "-j", "-d", "link", "show")


def function_resources(lab: Lab, topology: Topology, link: str) -> Iterator[Resource]:
    """Return the virtual functions of a link's ends; the first link of a card makes those of all its links."""
    (uplink,) = uplinks(lab, link)
    card = next(port for port in topology.ports() if port.ref == uplink)
    ends = functions_of(lab, uplink)
    own = ports_of(lab, topology, link)
    if own[0].ref == ends[0]:
        yield _functions(lab, card, ends)
    for port in own:
        index = ends.index(port.ref)
        yield _for_guest(card, port, index) if is_card(lab, port.ref) else _interface(lab, card, port, index)


def function_needs(lab: Lab) -> Iterator[UnmetRequirement]:
    """Tell of virtual functions that cannot be."""
    for name, link in lab.links.items():
        ends = [end for end in link.ends if is_function(lab, end.machine)]
        above = uplinks(lab, name)
        if not ends:
            continue
        purpose = KeyOf(key="sr-iov", part=ForPort(port=ends[0]))
        if not above:
            yield ParentPortAbsent(purpose=purpose, link=name)
        for uplink in above:
            yield from _card_needs(lab, uplink, purpose)
            if others := set(link.ends) - set(ends) - set(above):
                yield BridgedToCard(purpose=purpose, ends=tuple(sorted(others)), link=name)


def _card_needs(lab: Lab, uplink: PortRef, purpose: Purpose) -> Iterator[UnmetRequirement]:
    """Give what the card must be whose functions are wanted."""
    name = uplink.machine
    machine = lab.machines[name]
    if machine.kind == "netns":
        yield ClashAtMachine(code="namespace-has-no-card", purpose=purpose, machine=name)
    if isinstance(machine, Vm) and machine.nic != "igb":
        yield CardWithoutFunctions(purpose=purpose, nic=machine.nic, machine=name)
    elif isinstance(machine, Vm) and len(functions_of(lab, uplink)) > MOST_FUNCTIONS:
        yield FunctionsTooMany(purpose=purpose, port=uplink, most=MOST_FUNCTIONS)
    if isinstance(machine, Vm) and machine.nic == "igb":
        for end in (end for end in functions_of(lab, uplink) if bridges(lab, end)):
            name = end.machine
            asked = ValueOf(key="forward", value=lab.machines[name].forward, part=ForMachine(machine=name))
            yield ClashAtMachine(code="function-gets-own-frames", purpose=asked, machine=name)
    if lab.links[owner_of(lab, uplink)].vlan is not None:
        yield PlainUnbuilt(code="function-vlan-unbuilt", purpose=purpose)


def device_of(interface: str) -> str:
    """Return where the kernel tells of the card that an interface is on."""
    return f"/sys/class/net/{interface}/device"


def find_function(interface: str, index: int) -> Reading:
    """Return what tells the PCI address of a virtual function."""
    return Reading(Command(("readlink", f"{device_of(interface)}/virtfn{index}")), LastName())


def _functions(lab: Lab, card: Port, ends: tuple[PortRef, ...]) -> Resource:
    """Return a card split into functions.

    No driver may take them before they have their addresses: it would begin with one by chance, and the card then
    refuses another.
    """
    device = device_of(card.name)
    modules = ["vfio-pci"] if any(is_card(lab, end) for end in ends) else []
    if lab.machines[card.machine].kind == "vm":
        modules.append(VIRTUAL_DRIVER)  # a guest's kernel has nobody to load it when the functions appear
    count = f"{device}/sriov_numvfs"
    return Resource(
        key=f"functions:{card.ref}",
        machine=card.machine,
        kernel=card.kernel,
        needs=(base_of(lab, card),),
        actions=(
            *(Run(Command(("modprobe", module))) for module in modules),
            Write(f"{device}/sriov_drivers_autoprobe", None, "0"),
            Write(count, None, str(len(ends))),
            *(_address(card, index, mac_of(lab, end) or "") for index, end in enumerate(ends)),
            *(_let_through(card, index) for index, end in enumerate(ends) if bridges(lab, end)),
            Write(f"{device}/sriov_drivers_autoprobe", None, "1"),
        ),
        expect=(
            Expectation(
                Reading(Setting(count, None), Value()), str(len(ends)), f"virtual functions of {card.ref}"
            ),
            *(
                Expectation(
                    Reading(Command(SHOW_FUNCTIONS), VirtualFunction(card.name, index)),
                    "trust on spoofchk off",
                    f"trust and spoofchk of the function {end}",
                )
                for index, end in enumerate(ends)
                if bridges(lab, end)
            ),
        ),
    )


def bridges(lab: Lab, end: PortRef) -> bool:
    """Tell whether frames with other addresses than its own pass a function: its machine sends on what comes in."""
    return lab.machines[end.machine].forward in ("bridge", "xdp")


def _let_through(card: Port, index: int) -> Run:
    """Let a function send frames from other addresses, and ask for those to others (promiscuous mode)."""
    return Run(
        Command(
            ("ip", "link", "set", "dev", card.name, "vf", str(index), "trust", "on", "spoofchk", "off"),
        )
    )


def _address(card: Port, index: int, mac: str) -> Run:
    return Run(Command(("ip", "link", "set", "dev", card.name, "vf", str(index), "mac", mac)))


def _bind(card: Port, index: int) -> Tell:
    """Let the kernel find a driver for a function."""
    return Tell("/sys/bus/pci/drivers_probe", FOUND, find_function(card.name, index))


def _for_guest(card: Port, port: Port, index: int) -> Resource:
    """Return a function that a hypervisor can take."""
    return Resource(
        key=f"function:{port.ref}",
        machine=port.machine,
        kernel=card.kernel,
        needs=(f"functions:{card.ref}",),
        actions=(
            Tell(f"{device_of(card.name)}/virtfn{index}/driver_override", "vfio-pci"),
            _bind(card, index),
        ),
    )


def _interface(lab: Lab, card: Port, port: Port, index: int) -> Resource:
    """Return a function as an interface of a namespace; it is found by its address."""
    mac = mac_of(lab, port.ref) or ""
    rename = ("ip", "link", "set", "dev", FOUND, "netns", port.netns or "", "name", port.name)
    up = ("ip", "link", "set", "dev", port.name, "up")
    show = Command(SHOW, port.netns)
    return Resource(
        key=f"function:{port.ref}",
        machine=port.machine,
        kernel=card.kernel,
        needs=(f"functions:{card.ref}", *port_dependencies(lab, port)),
        actions=(
            _bind(card, index),
            Run(Command(rename), find=Reading(Command(SHOW), InterfaceByMac(mac))),
            Run(Command(up, port.netns)),
        ),
        expect=(
            Expectation(Reading(show, Interface(port.name, "carrier")), "up", f"carrier of {port.ref}"),
            Expectation(Reading(show, Interface(port.name, "mac")), mac, f"address of {port.ref}"),
        ),
    )


MOST_FUNCTIONS = 7
"""Of an igb (sriov_totalvfs of the emulated card)."""
VIRTUAL_DRIVER = "igbvf"
"""Of the functions of the one emulated card that has some."""
