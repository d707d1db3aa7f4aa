"""Bridges, and the namespaces that they and machines are in: made so that nothing is sent in them by itself. Pure."""

from iolab.lab.actions import Command, CreateNetns, Expectation, Reading, Run, Write
from iolab.lab.dependencies import Place
from iolab.lab.kernels import HERE
from iolab.lab.readback.values import Interface
from iolab.lab.resources import Resource


def netns_resource(
    key: str, machine: str, name: str, kernel: str = HERE, needs: tuple[str, ...] = ()
) -> Resource:
    """Return a namespace without IPv6: link-local noise would spoil the counters."""
    return Resource(
        key=key,
        machine=machine,
        kernel=kernel,
        needs=needs,
        actions=(CreateNetns(name), *without_ipv6(name)),
    )


def without_ipv6(netns: str | None) -> tuple[Write, ...]:
    """Keep IPv6 off all interfaces of a namespace, those to come included."""
    return tuple(
        Write(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", netns, "1", absent_ok=True)
        for scope in ("default", "all")
    )


def show_interfaces(netns: str | None) -> Command:
    """Return the command that shows every interface of a namespace."""
    return Command(("ip", "-j", "-d", "addr", "show"), netns)


def expect_interface(netns: str | None, how: Interface, expected: str, what: str) -> Expectation:
    """Expect an attribute of an interface."""
    return Expectation(Reading(show_interfaces(netns), how), expected, what)


def bridge_resource(machine: str, place: Place, mac: str | None = None) -> Resource:
    """Return a bridge that sends nothing by itself: no spanning tree, no multicast queries."""
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
    """Bring a bridge up after its `ports`, which are keys, and expect that it forwards at each of its `members`."""
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
