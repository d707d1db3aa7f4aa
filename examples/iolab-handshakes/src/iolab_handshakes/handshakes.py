"""The measure: a server and a client in perl, which every Debian has; the client says how many connections it made."""

from iolab.plugin import (
    Agent,
    AgentError,
    CommandRecord,
    Endpoint,
    Measured,
    Metric,
    Metrics,
    Refused,
    Site,
    TrialFailed,
)
from iolab_handshakes.models import Handshakes

PORT = 5301
READY_MS, SLACK_MS = 30_000, 20_000
"""Until the server listens, and what the client may take beyond its time: emulated guests are slow."""
SERVER = """
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => $ARGV[1], Listen => 128, ReuseAddr => 1) or die;
while (my $client = $server->accept) { close $client }
"""
CLIENT = """
use IO::Socket::INET; use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
my ($made, $begin) = (0, clock_gettime(CLOCK_MONOTONIC));
my $now = $begin;
while ($now < $begin + $ARGV[2]) {
    my $one = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], Timeout => 5) or die "connecting: $@\n";
    sysread $one, my $nothing, 1;  # until the server has closed it
    close $one;
    $made++;
    $now = clock_gettime(CLOCK_MONOTONIC);
}
printf "%d %.9f\n", $made, $now - $begin;
"""


def measure_handshakes(site: Site, measure: Handshakes) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: perl did not do its part; nothing goes on running.
        AgentError: an agent is gone.
    """
    client = site.topology.endpoint(measure.src, towards=measure.dst)
    server = site.topology.endpoint(measure.dst, towards=measure.src)
    ready = {"kind": "listening", "protocol": "tcp", "port": PORT}
    serve = ("perl", "-e", SERVER, server.address, str(PORT))
    connect = ("perl", "-e", CLIENT, server.address, str(PORT), str(measure.duration // 1_000_000_000))
    near, far = site.agent_of(client.kernel), site.agent_of(server.kernel)
    try:
        far.start("handshakes-server", serve, netns=server.netns, ready=ready, timeout_ms=READY_MS)
        near.start("handshakes-client", connect, netns=client.netns)
        ended = near.wait("handshakes-client", measure.duration // 1_000_000 + SLACK_MS)
    except Refused as error:
        raise TrialFailed(f"counting handshakes: {error}") from error
    finally:
        for agent, name in ((near, "handshakes-client"), (far, "handshakes-server")):
            _stop(agent, name)
    words = ended.stdout.split()
    if ended.exit_status or len(words) != 2:
        raise TrialFailed(
            f"counting handshakes: perl ended with {ended.exit_status}: {ended.stderr.strip()[:200]}"
        )
    made, seconds = int(words[0]), float(words[1])
    return Measured(
        metrics=Metrics(
            [Metric("handshakes_per_s", "1/s", made / seconds), Metric("handshakes", "count", float(made))]
        ),
        warnings=(),
        measured_ns=ended.end_ns - ended.begin_ns,
        commands=(_ran(client, connect, ended.exit_status, ended.end_ns - ended.begin_ns),),
        raw={"schema": 1, "client": ended.stdout},
    )


def _stop(agent: Agent, name: str) -> None:
    """Stop a program that may have ended, or never have begun."""
    try:
        agent.call("process.stop", {"id": name})
    except AgentError:
        return


def _ran(at: Endpoint, argv: tuple[str, ...], status: int | None, duration_ns: int) -> CommandRecord:
    return CommandRecord(
        machine=at.machine, kernel=at.kernel, netns=at.netns, argv=argv, undo=None, exit_status=status,
        duration_ns=duration_ns,
    )  # fmt: skip
