"""Captures: the agents of the ports' kernels store the newest frames of ports as pcapng files, with the trial's
samples."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Captured, Json
from iolab.agent.traffic import close_capture, read_capture, start_capture, stop_capture
from iolab.errors import AgentError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.instruments import Capture, CaptureFilter
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import Port, Topology
from iolab.messages.failures import WatchFailed
from iolab.messages.instrument_warnings import CaptureLost, CaptureOverwrote
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric
from iolab.trial.instruments.instrument import Seen
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}
"""Protocol numbers (IANA)."""


class PortCapture:
    """A capture of the frames on all its ports, which may belong to several kernels."""

    def __init__(
        self, agent_of: Callable[[str], Agent], asked: Capture, ports: Sequence[Port], wanted: Json
    ) -> None:
        self._agent_of = agent_of
        self._asked = asked
        self._ports = ports
        self._filter = wanted

    def start(self) -> None:
        """Start capturing. Raises TrialFailed and AgentError."""
        for port in self._ports:
            params: dict[str, Json] = {
                "id": _id(port),
                "netns": port.netns,
                "interface": port.name,
                "snap_bytes": self._asked.snaplen,
                "ring_bytes": self._asked.ring,
                "filter": self._filter,
            }
            with _answered(port):
                start_capture(self._agent_of(port.kernel), params)

    def stop(self) -> Seen:
        """Stop capturing, and return the files and the numbers of lost frames. Raises TrialFailed and AgentError."""
        counts: dict[Port, Captured] = {}
        for port in self._ports:
            with _answered(port):
                counts[port] = stop_capture(self._agent_of(port.kernel), _id(port))
        files = {}
        for port in self._ports:
            agent = self._agent_of(port.kernel)
            with _answered(port):
                files[f"{port.ref}.pcapng"] = read_capture(agent, _id(port))
            close_capture(agent, _id(port))
        return Seen(
            metrics=tuple(metric for port, seen in counts.items() for metric in _metrics(port, seen)),
            warnings=tuple(warning for port, seen in counts.items() for warning in _warnings(port, seen)),
            files=files,
        )

    def abandon(self) -> None:
        """Stop all captures and discard their files."""
        for port in self._ports:
            with suppress(AgentError):
                close_capture(self._agent_of(port.kernel), _id(port))


def capture_of(site: Site, asked: Capture) -> PortCapture:
    """Return the capture for a lab."""
    ports = captured_ports(site.lab, site.topology, asked.at)
    return PortCapture(site.agent_of, asked, ports, filter_of(site.topology, asked.filter))


def captured_ports(lab: Lab, topology: Topology, at: str) -> tuple[Port, ...]:
    """Return the ports whose frames are captured for a port or for a link in the experiment."""
    ports = {port.ref: port for port in topology.ports()}
    at = lab.aliases.get(at, at)
    ends = lab.links[at].ends if at in lab.links else (PortRef(at),)
    return tuple(ports[end] for end in ends if end in ports)


def filter_of(topology: Topology, asked: CaptureFilter) -> dict[str, Json]:
    """Return a filter in the form of the agent's protocol; a machine stands for all its addresses."""
    found: dict[str, Json] = {}
    if asked.protocol is not None:
        found["protocol"] = PROTOCOLS[asked.protocol]
    if asked.host is not None:
        machines = {port.machine for port in topology.ports()}
        named = PortRef(asked.host).machine in machines
        points = topology.endpoints(PortRef(asked.host)) if named else ()
        found["addresses"] = (
            [one.address for point in points for one in point.each()] if named else [asked.host]
        )
    if asked.port is not None:
        found["port"] = asked.port
    return found


def _id(port: Port) -> str:
    return f"capture:{port.ref}"


@contextmanager
def _answered(port: Port) -> Iterator[None]:
    """Fail the trial if an agent refuses the request, because the experiment requires the capture."""
    try:
        yield
    except Refused as error:
        raise Failed(WatchFailed(code="capture-failed", at=port.ref, said=str(error))) from error


def _metrics(port: Port, seen: Captured) -> Iterator[Metric]:
    about = Dimensions(port=port.ref)
    yield Metric.of("captured_frames", seen.kept_frames, about)
    yield Metric.of("capture_lost_frames", seen.lost_frames, about)
    yield Metric.of("capture_overwritten_frames", seen.overwritten_frames, about)


def _warnings(port: Port, seen: Captured) -> Iterator[TrialWarning]:
    if seen.lost_frames:
        yield CaptureLost(at=port.ref, lost_frames=seen.lost_frames, kept_frames=seen.kept_frames)
    if seen.overwritten_frames:
        yield CaptureOverwrote(
            at=port.ref, overwritten_frames=seen.overwritten_frames, kept_frames=seen.kept_frames
        )
