"""Connections to the agents of hosts: how one is started, and which interfaces carry ssh itself."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from iolab.agent.client import UNDO_DEADLINE_S, Agent
from iolab.agent.decoding import decode, understood
from iolab.agent.messages import Holder, Json, Resource
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.errors import AgentError, Refused, UnsupportedError
from iolab.locale import Phrase, Text

LOGIN = "SSH_CONNECTION"
"""What sshd tells every session: the client's address and port, then its own."""
SHOW = ("ip", "-details", "-j", "addr")
EVERYTHING = (Resource(name="host"),)
"""The lease of a lab: the whole host, for it alone."""
ASKED_EVERY_S = 0.25
"""How often a host that is held is asked for."""
HOLDERS_SHOWN = 8
SAID_EVERY_S = 30.0
"""How often is said what is waited for."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The addresses of a connection by ssh."""

    client: str
    """Of who called, as the host sees it."""
    server: str
    """Of the host itself."""


@contextmanager
def open_agent(host: str | None = None, *, leave_file: bool = True) -> Iterator[Agent]:
    """Start the agent here, or on another host by ssh; leaving undoes everything it changed.

    Without `leave_file` the agent's file is removed from that other host too.

    Raises:
        AgentError: it cannot be reached or started, or undoing left something behind.
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
    """Start the agent on another host by ssh, for the machine of that name.

    Raises:
        AgentError: it cannot be reached or started.
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
    """Return an error as it is shown; one without words of its own is an interruption."""
    return error if str(error) else Phrase("errors.interrupted")


def _left_behind(trouble: Text, error: BaseException | None = None) -> Text:
    """Return what went wrong as an agent ended; with what to do, unless that or the error before has said it."""
    closing = Phrase("run.closing-agent", trouble=trouble)
    advised = any("iolab clean" in str(said) for said in (trouble, error))
    return closing if advised else Phrase("run.closing-then-clean", closing=closing)


def _holders(refused: Refused) -> tuple[Holder, ...] | None:
    """Return who holds what was refused; None: nobody who lives."""
    data = refused.data if isinstance(refused.data, dict) else {}
    return decode(tuple[Holder, ...], data["holders"], "holders") if "holders" in data else None


def _silent(_said: Text) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The lab that takes hosts, and how long it waits for others that hold them."""

    lab: str
    """Its name, for people who wait for it."""
    limit_s: float = 0.0
    """0: a host that is held is refused at once [s]."""
    tell: Callable[[Text], None] = _silent
    """Prints what it waits for, which stopped agent was ended, and what was undone first."""


def occupy(agent: Agent, waiting: Waiting, host: str | None = None) -> None:
    """Take this host, or the one that is reached by ssh as `host`, for a lab; undo what killed agents left there.

    An agent that stands in the way and has been stopped for 20 s is ended.

    Raises:
        UnsupportedError: another lab holds it for longer than is waited, or what was left cannot be undone.
    """
    name, clean = (
        (Phrase("run.the-host"), "iolab clean") if host is None else (host, f"iolab clean --host {host}")
    )
    until, said = time.monotonic() + waiting.limit_s, 0
    while True:
        try:
            leased = agent.lease(waiting.lab, EVERYTHING)
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
                Phrase("run.lab-of-process", lab=one.lab or Phrase("run.unnamed-lab"), pid=one.pid)
                for one in found[:HOLDERS_SHOWN]
            ] or [Phrase("run.another-agent")]
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise UnsupportedError(Phrase("run.host-held-by-lab", host=name, holders=holders))
        if (waited_s := waiting.limit_s - left_s) >= said * SAID_EVERY_S:
            waiting.tell(Phrase("run.waiting-for-labs", host=name, holders=holders, seconds=round(left_s)))
            said = int(waited_s // SAID_EVERY_S) + 1
        time.sleep(min(ASKED_EVERY_S, left_s))  # the agent there cannot tell when another lab ends
    for pid in leased.ended:
        waiting.tell(Phrase("run.stopped-lab-ended", host=name, pid=pid))
    if leased.undone:
        waiting.tell(Phrase("run.changes-undone-first", host=name, count=leased.undone))


def parse_ends(text: str) -> Ends | None:
    """Return the ends that `SSH_CONNECTION` tells; None: it tells none."""
    words = text.split()
    return Ends(words[0], words[2]) if len(words) == 4 and words[0] != "UNKNOWN" else None


def ends_of(agent: Agent) -> Ends | None:
    """Return the ends of the connection to an agent; None: it is not reached by ssh."""
    transport = agent.transport
    return parse_ends(transport.login_setting(LOGIN)) if isinstance(transport, SshTransport) else None


def carriers_there(agent: Agent) -> list[str]:
    """Return the interfaces of another host that carry the connection to it, and those that these stand on."""
    ends = ends_of(agent)
    if ends is None or agent.hello.rootless:  # from its own namespaces it sees none, and can change none
        return []
    return _carriers(agent, [ends.server], [ends.client])


def carriers_here(here: Agent, others: Iterable[Agent]) -> list[str]:
    """Return the interfaces of this computer that carry a login by ssh to it, or our connections to other hosts."""
    login = parse_ends(os.environ.get(LOGIN, ""))
    ends = [found for agent in others if (found := ends_of(agent)) is not None]
    own = [end.client for end in ends] + ([login.server] if login else [])
    if not own or here.hello.rootless:
        return []
    return _carriers(here, own, [login.client] if login else [])


def carrying(addresses: Json, routes: Json, own: Iterable[str]) -> list[str]:
    """Return the interfaces that have one of our own addresses, or a route, and all that these stand on. Pure."""
    wanted = {address.partition("%")[0] for address in own}
    found = [one["dev"] for one in routes if "dev" in one]
    found += [
        one["ifname"]
        for one in addresses
        if wanted & {each.get("local") for each in one.get("addr_info", [])}
    ]
    below = _below(addresses)
    for name in found:  # grows while it is walked: what stands on a bridge stands on its members
        found += [lower for lower in below.get(name, ()) if lower not in found]
    return [name for name in dict.fromkeys(found) if name != "lo"]


def _below(addresses: Json) -> Mapping[str, list[str]]:
    """Return what interfaces stand on: a bridge or bond on its members, a VLAN on its card; a veth has a peer only."""
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
    """Return what `ip route get` is asked for: an address of one line only has that line's name behind it."""
    plain, _, zone = address.partition("%")
    return (plain, "dev", zone) if zone else (plain,)
