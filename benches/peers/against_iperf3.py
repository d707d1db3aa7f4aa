"""Compare iolab's rate with plain iperf3 in the same namespaces, alternating within one run.

Usage: python -m benches.peers.against_iperf3 [ROUNDS]. Needs root and iperf3. Prints the ratio of each pair and the
median.
"""

import json
import statistics

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import standing
from benches.harness.pairs import alternated
from benches.harness.programs import output, serving, within

from iolab.experiment.model.measures import Stream
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.lab_access import Site
from iolab.trial.streams.measure import conclude_stream, measure_stream

ARGUMENTS = (Argument("rounds", 15, "pairs of streams"),)
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
    """Return the received rate of plain iperf3 in the same namespaces [bit/s]."""
    argv = ("iperf3", "--client", address, "--port", str(PORT), "--json", "--time", str(seconds))
    with serving("iolab-b", PORT):
        done = json.loads(output(*within("iolab-a", *argv)))
    return float(done["end"]["sum_received"]["bits_per_second"])


def iolab_bps(site: Site, measure: Stream) -> float:
    """Return the received rate of a trial [bit/s]."""
    return conclude_stream(measure_stream(site, measure), {}).metrics["received_bps"].value


def main() -> None:
    """Measure pairs in alternating order and print their ratios."""
    rounds = arguments(__doc__, *ARGUMENTS).rounds
    with open_agent() as agent, standing(agent, LAB, Stream) as (site, measure):
        address = site.topology.endpoint("b", towards="a").address
        variants = {"iolab": lambda: iolab_bps(site, measure), "plain": lambda: plain_bps(address, 2)}
        rates = alternated(variants, rounds)
    ratios = []
    for ours, plain in zip(rates["iolab"], rates["plain"], strict=True):
        ratios.append(ours / plain)
        print(f"iolab {ours / 1e9:.3f} Gbit/s, plain {plain / 1e9:.3f} Gbit/s, ratio {ratios[-1]:.4f}")
    print(f"median ratio {statistics.median(ratios):.4f} over {rounds} pairs (bounds 0.98 to 1.02)")


if __name__ == "__main__":
    main()
