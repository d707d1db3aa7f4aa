"""Plan 100 000 cells (cells, order, digest) in three blocks; print CPU seconds and the peak of resident memory.

Usage: python -m benches.cost.plan_100k [--blocks N] [--labs]

With --labs, every cell has a separate lab (five factors of ten levels, on links and machines); without it, two of the
factors vary the measure. Limits: 10 s and 1 GB.
"""

import resource
import time

from benches.harness.arguments import Argument, arguments

from iolab.cli.main import collect_seldom
from iolab.experiment import parse
from iolab.lab.hosts.facts import Facts
from iolab.own_kinds import provide_own_kinds
from iolab.plan.plan_file import decode_plan, encode_plan
from iolab.plan.planning import make_plan

ARGUMENTS = (
    Argument("--blocks", 3, "blocks of the plan"),
    Argument("--labs", False, "give every cell a lab of its own"),
)
TEXT = """
title: A hundred thousand cells
lab:
  machines: {near: {kind: netns}, far: {kind: netns}, mid: {kind: netns, forward: bridge}}
  links:
    west: {ends: [near.eth0, mid.west], mtu: 1500}
    east: {ends: [mid.east, far.eth0], mtu: 1500}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors:
  links.west.mtu: [1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 7000, 9000]
  links.east.mtu: [1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 7000, 9000]
  rate:
    none: {}
    10M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 10Mbit}}
    20M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 20Mbit}}
    30M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 30Mbit}}
    40M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 40Mbit}}
    50M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 50Mbit}}
    60M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 60Mbit}}
    70M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 70Mbit}}
    80M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 80Mbit}}
    90M: {links.west.shape: {at: near.eth0, qdisc: tbf, rate: 90Mbit}}
"""
MEASURE_FACTORS = """
  tcp.window: [64K, 96K, 128K, 192K, 256K, 384K, 512K, 768K, 1M, 2M]
  tcp.parallel: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""
SIZES = ", ".join(
    f'"{size}": {{net.ipv4.tcp_limit_output_bytes: "{size}"}}' for size in range(10_000, 110_000, 10_000)
)
LAB_FACTORS = f"""
  machines.near.settings: {{{SIZES}}}
  machines.far.settings: {{{SIZES}}}
"""
FACTS = Facts(
    hostname="bench", kernel="6.1", architecture="x86_64", os="Debian", cpu_model="any", cpus=2,
    memory_bytes=8 << 30, clocksource="tsc", load_1min_milli=0,
)  # fmt: skip


def main() -> None:
    """Plan, encode, decode; print the time of each."""
    options = arguments(__doc__, *ARGUMENTS)
    provide_own_kinds()
    collect_seldom()  # as the command line does
    began = time.process_time()
    experiment = parse(TEXT + (LAB_FACTORS if options.labs else MEASURE_FACTORS), "bench.yaml")
    print(f"parse  {time.process_time() - began:6.2f} s")
    began = time.process_time()
    plan = make_plan(experiment, FACTS, blocks=options.blocks)
    planned_s = time.process_time() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"plan   {planned_s:6.2f} s, {len(plan.steps)} steps, peak {peak_mb:.0f} MB, {plan.digest[:16]}")
    began = time.process_time()
    text = encode_plan(plan)
    print(f"encode {time.process_time() - began:6.2f} s, {len(text) / 1e6:.1f} MB")
    began = time.process_time()
    decode_plan(text)
    print(f"decode {time.process_time() - began:6.2f} s")


if __name__ == "__main__":
    main()
