"""Bridges, and namespaces of bridges and machines, configured to send nothing on their own. Pure."""

from iolab.lab.actions import Command, CreateNetns, Expectation, Reading, Run, Write
from iolab.lab.dependencies import Place
from iolab.lab.kernels import HERE
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource


def netns_resource(
    key: str, machine: str, name: str, kernel: str = HERE, needs: tuple[str, ...] = ()
) -> Resource:
    """Return a namespace without IPv6, whose link-local traffic would disturb the counters."""
    return Resource(
        key=key,
        machine=machine,
        kernel=kernel,
        needs=needs,
        actions=(CreateNetns(name), *without_ipv6(name)),
    )


def without_ipv6(netns: str | None) -> tuple[Write, ...]:
    """Return the action that disables IPv6 on all current and future interfaces of a namespace."""
    return tuple(
        Write(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", netns, "1", absent_ok=True)
        for scope in ("default", "all")
    )


def show_interfaces(netns: str | None) -> Command:
    """Return the command that shows all interfaces of a namespace."""
    return Command(("ip", "-j", "-d", "addr", "show"), netns)


def expect_interface(netns: str | None, how: Interface, expected: str, what: str) -> Expectation:
    """Return the expectation of an interface attribute."""
    return Expectation(Reading(show_interfaces(netns), how), expected, what)


def bridge_resource(machine: str, place: Place, mac: str | None = None) -> Resource:
    """Return a bridge that sends nothing on its own: no spanning tree, no multicast queries."""
    name, netns = place.bridge, place.netns
    address = ("address", mac) if mac else ()
    add = ("ip", "link", "add", "dev", name, *address)
    add += ("type", "bridge", "stp_state", "0", "mcast_snooping", "0")
    return Resource(
        key=place.key,
        machine=machine,
        kernel=place.kernel,
        needs=place.home,
        actions=(Run(Command(add, netns), Command(("ip", "link", "del", "dev", name), netns)),),
        expect=(expect_interface(netns, Interface(name, "kind"), "bridge", f"kind of {name}"),),
    )


def bridge_up(
    key: str, machine: str, place: Place, ports: tuple[str, ...], members: tuple[str, ...]
) -> Resource:
    """Return the resource that brings up a bridge after its `ports` (keys) and expects all `members` to forward."""
    name, netns = place.bridge, place.netns
    forwards = (
        expect_interface(
            netns, Interface(member, "bridging"), "forwarding", f"bridging at {member} of {name}"
        )
        for member in members
    )
    return Resource(
        key=key,
        machine=machine,
        kernel=place.kernel,
        needs=(place.key, *ports),
        actions=(Run(Command(("ip", "link", "set", "dev", name, "up"), netns)),),
        expect=(expect_interface(netns, Interface(name, "carrier"), "up", f"carrier of {name}"), *forwards),
    )
