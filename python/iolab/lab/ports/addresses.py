"""Addresses of ports, and the routes between them, as resources. Pure.

A port of a lab has no IPv6 but where its link asks for it; then it has the address alone, not a link-local one: nothing
is sent for it by itself but that its machine listens to it (RFC 3810). It is up at once: nobody else can have it. A
router has a link-local one too, for it asks for its neighbours from there.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.lab.actions import Action, Command, Expectation, Reading, Run, Write
from iolab.lab.dependencies import place_of
from iolab.lab.endpoints import Endpoint, Port, Route, version_of
from iolab.lab.links.bridges import show_interfaces
from iolab.lab.readback.values import Gateway, HasAddress, Interface
from iolab.lab.resources import Resource

LOWER_HALF = 0xFFFF
"""Of an address, what tells a router from the others on its link."""
WHOLE = {4: 32, 6: 128}
"""Length of an address by version of IP [bit]."""


def address_resource(lab: Lab, point: Endpoint, port: Port) -> Resource:
    """Return the addresses of an endpoint."""
    actions: list[Action] = []
    expect: list[Expectation] = []
    for one in point.each():
        actions += _actions(lab, one)
        expect.append(_expected(lab, one, port))
    return Resource(
        key=f"address:{point.ref}",
        machine=point.machine,
        kernel=point.kernel,
        needs=(f"up:{point.ref}" if point.interface == port.bridge else place_of(lab, port),),
        actions=tuple(actions),
        expect=tuple(expect),
    )


def _actions(lab: Lab, point: Endpoint) -> Iterator[Action]:
    ip, address = version_of(point.address), f"{point.address}/{point.prefix_length}"
    if ip == 6:
        alone = ("ip", "link", "set", "dev", point.interface, "addrgenmode", "none")
        yield Run(Command(alone, point.netns))
        names = ("lo", point.interface) if point.netns is not None else (point.interface,)
        yield from (Write(disabled_path(name), point.netns, "0") for name in names)
    if ip == 6 and lab.machines[point.machine].forward == "route":
        own = f"fe80::{int(IPv6Address(point.address)) & LOWER_HALF:x}/64"
        local = ("ip", "addr", "add", own, "dev", point.interface, "nodad")
        gone = ("ip", "addr", "flush", "to", own.replace("/64", "/128"), "dev", point.interface)
        yield Run(Command(local, point.netns), Command(gone, point.netns))
    add = ("ip", "addr", "add", address, "dev", point.interface, *(("nodad",) if ip == 6 else ()))
    flush = ("ip", "addr", "flush", "to", f"{point.address}/{WHOLE[ip]}", "dev", point.interface)
    yield Run(Command(add, point.netns), Command(flush, point.netns))


def disabled_path(interface: str) -> str:
    """Return the setting by which an interface has no IPv6."""
    return f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"


def _expected(lab: Lab, point: Endpoint, port: Port) -> Expectation:
    """Expect an address alone; beside others, on a cable's interface."""
    address = f"{point.address}/{point.prefix_length}"
    others = lab.links[port.link].cable and point.interface != port.bridge
    attribute: Literal["address", "address6"] = "address6" if version_of(point.address) == 6 else "address"
    how = HasAddress(point.interface, address) if others else Interface(point.interface, attribute)
    return Expectation(Reading(show_interfaces(point.netns), how), address, f"address of {point.ref}")


def route_resource(route: Route) -> Resource:
    """Return a static route."""
    ip = version_of(route.destination)
    add = ("ip", f"-{ip}", "route", "add", route.destination, "via", route.gateway)
    flush = ("ip", f"-{ip}", "route", "flush", "exact", route.destination)
    add, flush = (argv if ip == 6 else (argv[0], *argv[2:]) for argv in (add, flush))
    show = Command(("ip", "-j", f"-{ip}", "route", "show"), route.netns)
    what = f"gateway from {route.machine} to {route.destination}"
    return Resource(
        key=f"route:{route.machine}:{route.destination}",
        machine=route.machine,
        kernel=route.kernel,
        needs=(f"address:{route.via_port.ref}",),
        actions=(Run(Command(add, route.netns), Command(flush, route.netns)),),
        expect=(Expectation(Reading(show, Gateway(route.destination, route.gateway)), route.gateway, what),),
    )
