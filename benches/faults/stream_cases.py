"""Faults of streams that are injected without iolab's knowledge, each with the right conclusion."""

from dataclasses import dataclass, field

STREAM_LAB = """
title: Faults of streams
lab:
  machines:
    near: {{kind: netns}}
    a: {{kind: netns, forward: {a}}}
    b: {{kind: netns, forward: bridge}}
    far: {{kind: netns}}
    other: {{kind: netns}}
  links:
    west: {{ends: [near.eth0, a.eth0], mtu: 1500}}
    mid: {{ends: [a.eth1, b.eth0], mtu: 1500{shape}}}
    east: {{ends: [b.eth1, far.eth0], mtu: 1500}}
    side: {{ends: [other.eth0, a.eth2], mtu: 1500}}
measure:
  it: {{kind: stream, {measure}, from: near, to: far, duration: {duration}}}
"""
TCP, UDP = "protocol: tcp", "protocol: udp, rate: 100Mbit"
HTB = ", shape: {at: a.eth1, qdisc: htb, rate: 200Mbit, classes: {all: {rate: 200Mbit, from: near}}}"
RENO = (("near", "sysctl -q -w net.ipv4.tcp_congestion_control=reno"),)
"""Commands that select a loss-based congestion control."""
TBF = ", shape: {at: a.eth1, qdisc: tbf, rate: 200Mbit}"


@dataclass(frozen=True, slots=True)
class StreamFault:
    """An injected fault."""

    name: str
    """Description."""
    verdict: tuple[str, ...] = ()
    """Accepted beginnings of limit and place of the verdict; empty: a warning reports the fault."""
    warning: str = ""
    """Code of the only disturbance warning that the trial must have; empty: the verdict reports the fault."""
    place: str = ""
    """Place that the warning must name."""
    measure: str = TCP
    """Keys of the measure."""
    lab: dict[str, str] = field(default_factory=dict)
    """Keys of a different lab."""
    commands: tuple[tuple[str, str], ...] = ()
    """Machine (empty: the local host) and command, run once the lab exists."""
    at_1s: tuple[tuple[str, str], ...] = ()
    """Commands 1 s after the beginning; @client and @server are the programs' process IDs."""
    at_2s: tuple[tuple[str, str], ...] = ()
    """Commands `pause_s` after the first ones."""
    pause_s: float = 1.0
    """Time between the first and the second commands [s]."""
    hogs: int = 0
    """Number of programs that use a CPU all the time during the stream."""
    foreign: bool = False
    """Whether another machine sends datagrams on the same path during the stream."""


def nft(rule: str, machine: str = "a") -> tuple[tuple[str, str], ...]:
    """Return the command for a rule on all ingress traffic of eth0 of a machine."""
    chain = "{ type filter hook ingress device eth0 priority 0 ; }"
    return (
        (machine, "nft add table netdev faults"),
        (machine, f"nft add chain netdev faults in {chain}"),
        (machine, f"nft add rule netdev faults in {rule}"),
    )


def stopped(which: str, place: str, measure: str = TCP) -> StreamFault:
    """Return a fault that stops a program for 1 s."""
    return StreamFault(
        f"{measure.partition(',')[0]}: the {which} stopped for 1 s",
        warning="program-stopped",
        place=place,
        measure=measure,
        at_1s=(("", f"kill -STOP @{which}"),),
        at_2s=(("", f"kill -CONT @{which}"),),
    )


STREAM_FAULTS = (
    stopped("client", "near"),
    stopped("server", "far"),
    stopped("server", "far", UDP),
    StreamFault("two CPU hogs", warning="cpu-taken", hogs=2),
    StreamFault("both programs on one CPU", warning="programs-share-cpu", place="near",
                at_1s=(("", "taskset -p -c 1 @client"), ("", "taskset -p -c 1 @server")), pause_s=0.0),
    StreamFault("the link down for 0.3 s", warning="link-went-down", place="a.eth1",
                at_1s=(("a", "ip link set eth1 down"),), at_2s=(("a", "ip link set eth1 up"),), pause_s=0.3),
    StreamFault("a shape that does not hold", warning="shape-not-held", place="a.eth1", lab={"shape": HTB},
                at_1s=(("a", "tc filter del dev eth1"),), pause_s=0.0),
    StreamFault("a tbf at a.eth1", ("shaper a.eth1",), commands=(
        ("a", "tc qdisc add dev eth1 root tbf rate 100mbit burst 32k limit 200k"),)),
    StreamFault("both ways: an htb at b.eth0", ("shaper b.eth0",), measure=f"{TCP}, direction: both-ways", commands=(
        ("b", "tc qdisc add dev eth0 root handle 1: htb default 1"),
        ("b", "tc class add dev eth0 parent 1: classid 1:1 htb rate 50mbit burst 15k quantum 1514"))),
    StreamFault("a rule that drops 1 %", ("rule a.eth0",), commands=(*RENO, *nft("numgen random mod 100 0 drop"))),
    StreamFault("UDP: a rule that drops 1 %", ("rule a.eth0",), measure=UDP,
                commands=nft("numgen random mod 100 0 drop")),
    StreamFault("a policer of 50 Mbit/s at b.eth0", ("rule b.eth0",),
                commands=(*RENO, *nft("limit rate over 6 mbytes/second drop", "b"))),
    StreamFault("a small receive window", ("window far",), commands=(
        ("far", "sysctl -q -w net.ipv4.tcp_rmem=4096 4096 4096"),)),
    StreamFault("a small send buffer", ("window near",), commands=(
        ("near", "sysctl -q -w net.ipv4.tcp_wmem=4096 8192 8192"),)),
    StreamFault("UDP: a socket buffer for two datagrams", ("receiver far",),
                measure="protocol: udp, rate: 800Mbit, window: 4K"),
    StreamFault("other traffic on the same link", warning="foreign-traffic", place="a.eth1", measure=UDP, foreign=True),
    StreamFault("UDP, both ways: a tbf at a.eth1", ("shaper a.eth1",),
                measure=f"{UDP}, direction: both-ways", commands=(
        ("a", "tc qdisc add dev eth1 root tbf rate 40mbit burst 8k limit 16k"),)),
)  # fmt: skip
UNDISTURBED = (
    (TCP, ""), (f"{TCP}, direction: both-ways", ""), (f"{TCP}, rate: 200Mbit", ""), (UDP, ""),
    (f"{UDP}, direction: dual", ""), (TCP, TBF),
)  # fmt: skip
"""Measures, and shapes of the lab, of undisturbed streams."""
