"""Virtual functions of a parent's NIC as resources (SR-IOV): created on the parent, then passed to machines.

A namespace gets its virtual function as an interface. A guest's virtual function is bound to vfio-pci, through which
the hypervisor uses it. The embedded switch of the NIC forwards frames between the virtual functions and the NIC's port.
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
    """Return the virtual functions of a link's ends; the first link on a NIC creates the virtual functions of all links
    on the NIC."""
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
    """Yield conflicts of virtual functions."""
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
    """Yield the requirements of the NIC that provides the virtual functions."""
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
    """Return the sysfs folder of the NIC of an interface."""
    return f"/sys/class/net/{interface}/device"


def find_function(interface: str, index: int) -> Reading:
    """Return the reading of a virtual function's PCI address."""
    return Reading(Command(("readlink", f"{device_of(interface)}/virtfn{index}")), LastName())


def _functions(lab: Lab, card: Port, ends: tuple[PortRef, ...]) -> Resource:
    """Return the resource that creates the virtual functions of a NIC.

    Drivers must not bind to the virtual functions before the functions have MAC addresses: a driver would use a random
    address, and the NIC then rejects a change.
    """
    device = device_of(card.name)
    modules = ["vfio-pci"] if any(is_card(lab, end) for end in ends) else []
    if lab.machines[card.machine].kind == "vm":
        # in a guest, no udev loads the module when the virtual functions appear
        modules.append(VIRTUAL_DRIVER)
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
    """Whether a virtual function carries frames with addresses other than its own, because its machine forwards
    frames."""
    return lab.machines[end.machine].forward in ("bridge", "xdp")


def _let_through(card: Port, index: int) -> Run:
    """Return the actions that let a virtual function send from other addresses and receive all frames (promiscuous
    mode)."""
    return Run(
        Command(
            ("ip", "link", "set", "dev", card.name, "vf", str(index), "trust", "on", "spoofchk", "off"),
        )
    )


def _address(card: Port, index: int, mac: str) -> Run:
    return Run(Command(("ip", "link", "set", "dev", card.name, "vf", str(index), "mac", mac)))


def _bind(card: Port, index: int) -> Tell:
    """Return the action that lets the kernel bind a driver to a virtual function."""
    return Tell("/sys/bus/pci/drivers_probe", FOUND, find_function(card.name, index))


def _for_guest(card: Port, port: Port, index: int) -> Resource:
    """Return the resource of a virtual function that a hypervisor can use."""
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
    """Return a virtual function as an interface of a namespace; its MAC address identifies it."""
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
"""Maximum number of virtual functions of an igb (sriov_totalvfs of the emulated NIC)."""
VIRTUAL_DRIVER = "igbvf"
"""Driver of the virtual functions of igb, the only emulated NIC that supports virtual functions."""
