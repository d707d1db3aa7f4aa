"""The instrument: a program that reads how many context switches there were, again and again, and what came of it."""

from itertools import pairwise

from iolab.plugin import AgentError, Metric, ProcessEnded, Seen, Site, TrialFailed, series

NAME = "switches"
NS_PER_S = 1_000_000_000
READER = """
use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC); $| = 1;
while (1) {
    open my $stat, "<", "/proc/stat" or die;
    while (<$stat>) { printf "%d %d\n", 1e9 * clock_gettime(CLOCK_MONOTONIC), $1 if /^ctxt (\\d+)/ }
    sleep $ARGV[0];
}
"""


class SwitchCounter:
    """Reads the counter of the kernel on which the measure's agent is."""

    def __init__(self, site: Site, period_ns: int) -> None:
        self._agent = site.agent
        self._period_ns = period_ns

    def start(self) -> None:
        """Begin to read. Raises AgentError."""
        self._agent.start(NAME, ("perl", "-e", READER, str(self._period_ns / NS_PER_S)))

    def stop(self) -> Seen:
        """End, and return the switches per second, over time and on the whole. Raises AgentError, TrialFailed."""
        ended = self._agent.ask(ProcessEnded, "process.stop", {"id": NAME}, 10.0)
        rows = [tuple(map(int, line.split())) for line in ended.stdout.splitlines()]
        if len(rows) < 2:
            raise TrialFailed(
                f"counting context switches: perl read {len(rows)} times: {ended.stderr.strip()[:200]}"
            )
        begin_ns, first = rows[0]
        end_ns, last = rows[-1]
        points = [
            (at_ns - begin_ns, (count - before) * NS_PER_S / (at_ns - before_ns))
            for (before_ns, before), (at_ns, count) in pairwise(rows)
        ]
        mean = (last - first) * NS_PER_S / (end_ns - begin_ns)
        return Seen(
            metrics=(Metric("context_switches_per_s", "1/s", mean),),
            series=(series("context_switches_per_s", "1/s", points, source=NAME),),
        )

    def abandon(self) -> None:
        """End, if it runs."""
        try:
            self._agent.call("process.stop", {"id": NAME})
        except AgentError:
            return
