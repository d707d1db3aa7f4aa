"""Connections to the agents of hosts: starting an agent, and the interfaces that carry the ssh connections."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from iolab.agent.client import UNDO_DEADLINE_S, Agent
from iolab.agent.decoding import decode, understood
from iolab.agent.messages import Holder, Json, Resource
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.errors import AgentError, Refused, UnsupportedError
from iolab.lab.kernels import HERE
from iolab.lab.leases import WHOLE_HOST
from iolab.locale import Phrase, Text
from iolab.printable import one_line

LOGIN = "SSH_CONNECTION"
"""Variable that sshd sets in every session: the address and port of the client, then those of the server."""
SHOW = ("ip", "-details", "-j", "addr")
ASKED_EVERY_S = 0.25
"""Interval between attempts to lease a busy host."""
HOLDERS_SHOWN = 8
RESOURCES_SHOWN = 6
SAID_EVERY_S = 30.0
"""Interval between messages to a user who waits for a host."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The addresses of an ssh connection."""

    client: str
    """Address of the client, as the host sees it."""
    server: str
    """Address of the host."""


@contextmanager
def open_agent(host: str | None = None, *, leave_file: bool = True) -> Iterator[Agent]:
    """Start the agent on the local host, or on a remote host through ssh; leaving the context undoes all changes of the
    agent.

    Without `leave_file`, the agent's file is also removed from the remote host.

    Raises:
        AgentError: the host cannot be reached, the agent cannot be started, or changes remain after the undo.
    """
    agent = _agent_here() if host is None else agent_on(host, host, leave_file=leave_file)
    try:
        yield agent
    except BaseException as error:
        if trouble := agent.close():
            left_behind = _left_behind(trouble, error)
            raise AgentError(
                Phrase("run.error-left-behind", error=in_words(error), left_behind=left_behind)
            ) from error
        raise
    if trouble := agent.close():
        raise AgentError(_left_behind(trouble))


def agent_on(host: str, name: str, *, leave_file: bool = True) -> Agent:
    """Start the agent on a remote host through ssh, for the machine with a given name.

    Raises:
        AgentError: the host cannot be reached, or the agent cannot be started.
    """
    transport = SshTransport(host, find_agent(), leave_file=leave_file)
    try:
        return Agent(transport, name=name)
    except BaseException:
        transport.close(UNDO_DEADLINE_S)
        raise


def _agent_here() -> Agent:
    return Agent(LocalTransport(find_agent()))


def in_words(error: BaseException) -> object:
    """Return an error as text; an error without a message is reported as an interruption."""
    return error if str(error) else Phrase("errors.interrupted")


def _left_behind(trouble: Text, error: BaseException | None = None) -> Text:
    """Return the errors from closing an agent, with advice unless they or the earlier error already contain advice."""
    closing = Phrase("run.closing-agent", trouble=trouble)
    advised = any("iolab clean" in str(said) for said in (trouble, error))
    return closing if advised else Phrase("run.closing-then-clean", closing=closing)


def _holders(refused: Refused) -> tuple[Holder, ...] | None:
    """Return the holders of a refused lease; None: no living agent holds the resource."""
    data = refused.data if isinstance(refused.data, dict) else {}
    return decode(tuple[Holder, ...], data["holders"], "holders") if "holders" in data else None


def _shown(resources: Sequence[Resource]) -> list[Text]:
    """Return the first resources that a lease holder has, for messages."""
    if not resources or any(one.name == WHOLE_HOST for one in resources):
        return [Phrase("run.whole-host")]
    more = len(resources) - RESOURCES_SHOWN
    shown: list[Text] = [one_line(one.name) for one in resources[:RESOURCES_SHOWN]]
    return [*shown, Phrase("run.more-resources", count=more)] if more > 0 else shown


def _silent(_said: Text) -> None:
    """Print nothing."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The lab that leases hosts, and how long it waits for other labs."""

    lab: str
    """Name of the lab, shown to waiting users."""
    limit_s: float = 0.0
    """Maximum waiting time; 0: a busy host is refused at once [s]."""
    tell: Callable[[Text], None] = _silent
    """Function that prints messages about labs that are waited for, stopped agents that were ended, and changes that
    were undone."""
    leases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Resources that only this lab may use, by kernel; on a kernel that is not listed, the lab needs the whole host."""

    def resources(self, kernel: str) -> list[Resource]:
        """Return the resources to lease on a kernel."""
        return [Resource(name=name) for name in self.leases.get(kernel, (WHOLE_HOST,))]


def undo_dead(agent: Agent, waiting: Waiting, host: str | None = None) -> None:
    """Undo the changes left on a host by labs that were killed, except changes whose undo a running lab prevents."""
    for predecessor in agent.hello.predecessors:
        with suppress(Refused):  # another agent holds the resource: the next attempt to lease it decides
            if undone := agent.undo(predecessor.journal).undone:
                name = Phrase("run.the-host") if host is None else host
                waiting.tell(Phrase("run.changes-undone-first", host=name, count=undone))


def occupy(agent: Agent, waiting: Waiting, host: str | None = None, kernel: str = HERE) -> None:
    """Lease the local host, or a remote host (`host`), for a lab; undo changes left there by killed agents.

    A conflicting agent that has been stopped (state T) for 20 s is ended.

    Raises:
        UnsupportedError: a different lab holds the host beyond the waiting time, or changes of killed agents cannot be
            undone.
    """
    name, clean = (
        (Phrase("run.the-host"), "iolab clean") if host is None else (host, f"iolab clean --host {host}")
    )
    resources = waiting.resources(kernel)
    until, said = time.monotonic() + waiting.limit_s, 0
    while True:
        try:
            leased = agent.lease(waiting.lab, resources)
            break
        except Refused as refused:
            if not refused.is_busy:
                raise
            found = _holders(refused)
            if found is None:
                raise UnsupportedError(
                    Phrase("run.left-changes-stay", host=name, seen=str(refused), command=clean)
                ) from refused
            holders = [
                Phrase(
                    "run.lab-of-process",
                    lab=one_line(one.lab) or Phrase("run.unnamed-lab"),
                    pid=one.pid,
                    resources=_shown(one.resources),
                )
                for one in found[:HOLDERS_SHOWN]
            ] or [Phrase("run.another-agent")]
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise UnsupportedError(Phrase("run.host-held-by-lab", host=name, holders=holders))
        if (waited_s := waiting.limit_s - left_s) >= said * SAID_EVERY_S:
            waiting.tell(Phrase("run.waiting-for-labs", host=name, holders=holders, seconds=round(left_s)))
            said = int(waited_s // SAID_EVERY_S) + 1
        time.sleep(min(ASKED_EVERY_S, left_s))  # the remote agent cannot report when the other lab ends
    for pid in leased.ended:
        waiting.tell(Phrase("run.stopped-lab-ended", host=name, pid=pid))
    if leased.undone:
        waiting.tell(Phrase("run.changes-undone-first", host=name, count=leased.undone))


def parse_ends(text: str) -> Ends | None:
    """Return the addresses in `SSH_CONNECTION`; None: the variable has no addresses."""
    words = text.split()
    return Ends(words[0], words[2]) if len(words) == 4 and words[0] != "UNKNOWN" else None


def ends_of(agent: Agent) -> Ends | None:
    """Return the addresses of the connection to an agent; None: the agent is not reached through ssh."""
    transport = agent.transport
    return parse_ends(transport.login_setting(LOGIN)) if isinstance(transport, SshTransport) else None


def carriers_there(agent: Agent) -> list[str]:
    """Return the interfaces of a remote host that carry the connection to it, and the interfaces below them."""
    ends = ends_of(agent)
    # A rootless agent sees no interface of the host and cannot change one.
    if ends is None or agent.hello.rootless:
        return []
    return _carriers(agent, [ends.server], [ends.client])


def carriers_here(here: Agent, others: Iterable[Agent]) -> list[str]:
    """Return the interfaces of the local host that carry an ssh login to it, or connections to other hosts."""
    login = parse_ends(os.environ.get(LOGIN, ""))
    ends = [found for agent in others if (found := ends_of(agent)) is not None]
    own = [end.client for end in ends] + ([login.server] if login else [])
    if not own or here.hello.rootless:
        return []
    return _carriers(here, own, [login.client] if login else [])


def carrying(addresses: Json, routes: Json, own: Iterable[str]) -> list[str]:
    """Return the interfaces that have one of the local addresses or a route, and all interfaces below them. Pure."""
    wanted = {address.partition("%")[0] for address in own}
    found = [one["dev"] for one in routes if "dev" in one]
    found += [
        one["ifname"]
        for one in addresses
        if wanted & {each.get("local") for each in one.get("addr_info", [])}
    ]
    below = _below(addresses)
    for name in found:  # the list grows in the loop: a bridge adds its members
        found += [lower for lower in below.get(name, ()) if lower not in found]
    return [name for name in dict.fromkeys(found) if name != "lo"]


def _below(addresses: Json) -> Mapping[str, list[str]]:
    """Return the interfaces below an interface: members of a bridge or bond, the NIC of a VLAN; none for a veth."""
    below: dict[str, list[str]] = {}
    for one in addresses:
        if "master" in one:
            below.setdefault(one["master"], []).append(one["ifname"])
        if "link" in one and one.get("linkinfo", {}).get("info_kind") != "veth":
            below.setdefault(one["ifname"], []).append(one["link"])
    return below


def _carriers(agent: Agent, own: list[str], others: list[str]) -> list[str]:
    asked = [("ip", "-j", "route", "get", *_target(address)) for address in others]
    shown, *routes = agent.run_all([(argv, None) for argv in (SHOW, *asked)])
    with understood(agent.name, Phrase("agent.addresses-and-routes")):
        ways = [way for route in routes if route.succeeded for way in json.loads(route.stdout)]
        addresses = json.loads(shown.stdout) if shown.succeeded else []
        return carrying(addresses, ways, own)


def _target(address: str) -> tuple[str, ...]:
    """Return an address as an argument for `ip route get`; a link-local address gets its interface."""
    plain, _, zone = address.partition("%")
    return (plain, "dev", zone) if zone else (plain,)
