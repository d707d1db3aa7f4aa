"""iolab's rate against plain iperf3 in the same namespaces, alternating within one run.

Usage: python -m benches.peers.against_iperf3 [ROUNDS]. Needs root and iperf3. Prints the ratio of each pair and the
median.
"""

import json
import statistics
import subprocess
import sys

from benches.harness.iperf3_server import serving

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.measures import Stream
from iolab.lab.compose import compose
from iolab.lab.topology import make_topology
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import Site
from iolab.trial.streams.measure import conclude_stream, measure_stream

PORT = 6201
LAB = """
title: Against iperf3
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: a, to: b, duration: 2s}
"""


def plain_bps(address: str, seconds: int) -> float:
    """Return what iperf3, started by hand in the same namespaces, received [bit/s]."""
    with serving("iolab-b", PORT):
        client = ["ip", "netns", "exec", "iolab-a", "iperf3", "--client", address, "--port", str(PORT)]
        done = subprocess.run(
            [*client, "--json", "--time", str(seconds)], capture_output=True, check=True, text=True
        )
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"])


def iolab_bps(site: Site, measure: Stream) -> float:
    """Return what a trial measures as received [bit/s]."""
    return conclude_stream(measure_stream(site, measure), {}).metrics["received_bps"].value


def main() -> None:
    """Measure pairs in alternating order and print their ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    experiment = parse(LAB, "bench")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    topology = make_topology(setup.lab)
    measure = setup.measures["tcp"]
    assert isinstance(measure, Stream)
    address = topology.endpoint("b", towards="a").address
    ratios = []
    with open_agent() as agent:
        lab = StandingLab(Agents(agent), lambda _: None)
        lab.change_to(compose(setup.lab))
        site = Site(agent=agent, lab=setup.lab, topology=topology)
        for number in range(rounds):
            measures = {
                "iolab": lambda: iolab_bps(site, measure),
                "plain": lambda: plain_bps(address, 2),
            }
            order = ["iolab", "plain"] if number % 2 else ["plain", "iolab"]
            rates = {name: measures[name]() for name in order}
            ratios.append(rates["iolab"] / rates["plain"])
            text = ", ".join(f"{name} {rate / 1e9:.3f} Gbit/s" for name, rate in sorted(rates.items()))
            print(f"{text}, ratio {ratios[-1]:.4f}")
        lab.take_down()
    print(f"median ratio {statistics.median(ratios):.4f} over {rounds} pairs (bounds 0.98 to 1.02)")


if __name__ == "__main__":
    main()
