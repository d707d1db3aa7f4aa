"""Check that each transaction of `kind: rr` has a sample at the maximum rate of one CPU, against kernel counters.

Usage: python -m benches.truth.round_trip_samples [SECONDS]. Needs root and two CPUs; takes two minutes. The client runs
on CPU 0, the server on CPU 0 or CPU 1. Prints for each protocol and number of connections the transactions per second,
and the number of requests that the kernel of the server counted and that have no sample; the exit status is 1 if there
is such a request.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from benches.harness.arguments import Argument, arguments
from benches.harness.programs import End, joined, output, running, within

ARGUMENTS = (Argument("seconds", 5.0, "length of each case"),)
AGENT = Path(sys.executable).with_name("iolab-agent")
NEAR, FAR = "iolab-bench-near", "iolab-bench-far"
ADDRESSES = {NEAR: "198.18.0.1", FAR: "198.18.0.2"}
CASES = list(itertools.product(("tcp", "udp"), (0, 1), (1, 4, 16, 64)))
"""Cases: protocol, CPU of the answering end, number of connections."""
COUNTER = {"tcp": "TcpInSegs", "udp": "UdpInDatagrams"}
MOST_ELSE = {"tcp": 6, "udp": 0}
"""Maximum number of segments per connection that the kernel counts in addition to the requests: SYN, ACK, FIN, and the
acknowledgements of the last response and of the server's SYN and FIN."""


def program(netns: str, cpu: int, **request: Any) -> list[str]:
    """Return the command of one end."""
    return within(netns, "taskset", "-c", str(cpu), str(AGENT), "roundtrip", json.dumps(request))


def counted(netns: str, counter: str) -> int:
    """Return a kernel counter of a namespace."""
    return int(output(*within(netns, "nstat", "--ignore", "--noupdate", "--zeros", counter)).split()[-2])


def measured(protocol: str, cpu: int, connections: int, duration_ns: int) -> tuple[float, int]:
    """Return the transactions per second of one case, and the number of missing samples."""
    sizes = {"request_bytes": 64, "response_bytes": 64, "port": 5801, "protocol": protocol}
    far, near = ADDRESSES[FAR], ADDRESSES[NEAR]
    with running(*program(FAR, cpu, program="serve", address=far, threads=connections, **sizes)):
        before = counted(FAR, COUNTER[protocol])
        client = program(
            NEAR, 0, program="transactions", source=near, address=far, connections=connections, connect_each=False,
            interval_ns=0, warm_up_ns=0, duration_ns=duration_ns, timeout_ns=10_000_000_000,
            slice_ns=100_000_000, **sizes,
        )  # fmt: skip
        report = json.loads(output(*client).splitlines()[-1])
        after = counted(FAR, COUNTER[protocol])
    samples = sum(count for _, count in report["latency_ns"]["buckets"]) + report["latency_ns"]["above"]
    assert samples == report["transactions"] == sum(one["count"] for one in report["slices"])
    requests = after - before
    return samples / report["duration_ns"] * 1e9, requests - samples - report["lost"]


def main() -> int:
    """Print each case; return the exit status."""
    duration_ns = int(arguments(__doc__, *ARGUMENTS).seconds * 1e9)
    wrong = False
    with joined(*(End(name, "v0", f"{address}/24") for name, address in ADDRESSES.items())):
        for protocol, cpu, connections in CASES:
            per_s, without = measured(protocol, cpu, connections, duration_ns)
            most = MOST_ELSE[protocol] * connections
            wrong |= not 0 <= without <= most
            at = "on the same CPU" if cpu == 0 else "on another CPU"
            print(
                f"{protocol}, {connections} connections, answered {at}: {per_s:.0f}/s, the kernel counts {without} "
                f"more than there are samples (most {most}, of the connections themselves)"
            )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
