"""Facts of computers with processors and NICs."""

from dataclasses import replace

from iolab.lab.hosts.facts import Facts, IdleState, InterfaceFact, ProcessorFacts
from iolab.plan.support import ANY_HOST

SERVER = ProcessorFacts(
    online="0-7",
    smt=True,
    cores=("0,4", "1,5", "2,6", "3,7"),
    nodes={"0": "0,2,4,6", "1": "1,3,5,7"},
    driver="intel_pstate",
    governors={"powersave": "0-7"},
    available_governors=("performance", "powersave"),
    turbo=True,
    idle_driver="intel_idle",
    idle_states=(IdleState(name="POLL", exit_latency_ns=0), IdleState(name="C6", exit_latency_ns=133_000)),
)
"""Two sockets with alternating CPU numbers, two threads per core."""


CARD = InterfaceFact(
    name="enp1s0f0",
    driver="ixgbe",
    mtu=1500,
    up=True,
    numa_node=1,
    firmware="0x800003e1",
    coalescing={"rx-usecs": "1", "adaptive-rx": "on"},
    pause={"autoneg": False, "rx": True, "tx": True},
    manager="NetworkManager",
)


READY = ProcessorFacts(online="0-3", governors={"performance": "0-3"}, turbo=False)


def facts(processors: ProcessorFacts = SERVER, *cards: InterfaceFact, daemons: tuple[str, ...] = ()) -> Facts:
    """Return the facts of a host."""
    return replace(ANY_HOST, processors=processors, interfaces=cards, daemons=daemons)
