"""Whether what was asked to control TCP's congestion did, by what each sender's kernel told. Pure."""

from collections.abc import Iterator, Sequence

from iolab.experiment.measures import Stream
from iolab.statements.warnings import CongestionDiffers
from iolab.trial.streams.iperf3 import Pair
from iolab.trial.streams.iperf3_report import Report


def other_congestion(
    measure: Stream, pairs: Sequence[Pair], reports: Sequence[tuple[Report, Report]]
) -> Iterator[CongestionDiffers]:
    """Yield each sender at which something else did; iperf3 reads it from the socket that sent."""
    if measure.congestion is None:
        return
    told: set[tuple[str, str]] = set()
    for pair, (client, server) in zip(pairs, reports, strict=True):
        for end, report in ((pair.client, client), (pair.server, server))[: 2 if pair.bidir else 1]:
            seen = report.end.sender_tcp_congestion
            if seen is not None and seen != measure.congestion and (end.machine, seen) not in told:
                told.add((end.machine, seen))
                yield CongestionDiffers(machine=end.machine, asked=measure.congestion, seen=seen)
