"""Measure the time to create and to remove a lab of many namespaces, and check that nothing is left.

Usage: python -m benches.cost.many_machines [MACHINES] [TIMES]. Default: 200 on one bridge, 3 times, once plain and once
with an MTU, IPv6 and offloads off. Needs root; takes a minute. The exit status is 1 if a lab takes longer than 10 s to
create or 5 s to remove, differs from what was applied, or leaves something behind.
"""

import sys
import time
from statistics import median

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import setup_of
from benches.harness.programs import output

from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab

ARGUMENTS = (
    Argument("machines", 200, "namespaces on one bridge"),
    Argument("times", 3, "how often each lab stands"),
)
LAB = """
lab:
  machines: {{hub: {{kind: netns}}, node: {{kind: netns, count: {nodes}}}}}
  links: {{lan: {{ends: [hub.eth0, "node[*].eth0"]{more}}}}}
measure:
  it: {{kind: ping, from: node1, to: hub}}
"""
MORE = {"plain": "", "with all": ", mtu: 9000, ip: 6, offload: {tso: off, gro: off}"}
LONGEST_UP_S, LONGEST_DOWN_S = 10.0, 5.0


def namespaces() -> int:
    """Return the number of named network namespaces."""
    return len(output("ip", "netns").splitlines())


def measured(nodes: int, more: str, times: int) -> bool:
    """Print the times of one lab and their medians; return whether all are within the limits."""
    resources = compose(setup_of(LAB.format(nodes=nodes, more=more)).lab)
    before, up, down, wrong = namespaces(), [], [], 0
    with open_agent() as agent:
        for _ in range(times):
            lab = StandingLab(Agents(agent), lambda _: None)
            began = time.monotonic()
            lab.change_to(resources)
            stood = time.monotonic()
            wrong += len(lab.mismatches())
            read = time.monotonic()
            lab.take_down()
            up.append(stood - began)
            down.append(time.monotonic() - read)
            print(f"up {up[-1]:.2f} s, read back {read - stood:.2f} s, down {down[-1]:.2f} s")
    left = namespaces() - before
    print(f"up {median(up):.2f} s, down {median(down):.2f} s, not as applied {wrong}, left {left}")
    return median(up) <= LONGEST_UP_S and median(down) <= LONGEST_DOWN_S and wrong == 0 and left == 0


def main() -> int:
    """Measure each lab; return the exit status."""
    asked, well = arguments(__doc__, *ARGUMENTS), True
    for name, more in MORE.items():
        print(f"{asked.machines} machines, {name}:")
        well &= measured(asked.machines - 1, more, asked.times)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
