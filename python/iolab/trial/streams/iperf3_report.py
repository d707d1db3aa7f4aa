"""What iperf3 3.12 and later write with --json, as far as it is used: typed, checked, finite. Pure.

The program may run in a guest or on another host: what it wrote is not to be trusted before it was checked.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from iolab.untrusted_json import read_untrusted

UNREACHED = "unable to connect"
"""What iperf3 says where the receiver was not reached."""
ADVICE = {
    "socket buffer size": "; the window is more than net.core.rmem_max and wmem_max allow: raise them on the host",
    UNREACHED: "; do the addresses reach each other? `iolab plan` shows them",
}
"""What to do about errors that iperf3 reports in few words."""

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class _Part(BaseModel):
    """A part of the report; what is not used of it is not looked at."""

    model_config = ConfigDict(frozen=True)


class Total(_Part):
    """The sum over a flow's parallel connections, from one end's view."""

    bits_per_second: Amount
    """Payload [bit/s]."""
    packets: Count | None = None
    """UDP datagrams; None: TCP."""
    lost_packets: Count | None = None
    """UDP datagrams that did not arrive."""
    jitter_ms: Amount | None = None
    """Interarrival jitter (RFC 3550) [ms]."""
    retransmits: Count | None = None
    """TCP segments sent again."""


class Connection(_Part):
    """One TCP connection's summary."""

    sender: StrictBool = False
    """Whether the reporting process sent on it."""
    mean_rtt: Amount | None = None
    """Smoothed round-trip time, mean [us]; 0 or None: not known."""


class EndStream(_Part):
    """One connection at the end."""

    sender: Connection | None = None
    """None: UDP."""


class CpuUse(_Part):
    """CPU of the reporting process."""

    host_total: Amount
    """[percent of one CPU]."""


class End(_Part):
    """The summary."""

    streams: tuple[EndStream, ...]
    sum_sent: Total
    sum_received: Total
    sum_sent_bidir_reverse: Total | None = None
    sum_received_bidir_reverse: Total | None = None
    cpu_utilization_percent: CpuUse
    sender_tcp_congestion: str | None = None
    """What controls the congestion of the reporting process where it sends, as the kernel told; None: UDP."""


class IntervalStream(_Part):
    """One connection in one interval."""

    bytes: Count
    sender: StrictBool
    start: Amount = 0.0
    """Since the first one's start [s]."""
    end: Amount = 0.0
    """The same of its end [s]."""
    packets: Count | None = None
    """UDP datagrams: of a sender those sent, of a receiver those that should have come by their numbers."""
    lost_packets: Annotated[int, Field(strict=True)] | None = None
    """Of these, those that did not come; below zero where late ones had been counted before."""
    retransmits: Count | None = None
    """TCP segments sent again."""
    snd_cwnd: Count | None = None
    """TCP's congestion window [bytes]."""
    rtt: Count | None = None
    """TCP's smoothed round-trip time [us]; 0: not known."""
    omitted: StrictBool = False
    """Whether it is of the warm-up."""


class Interval(_Part):
    """A part of the time, warm-up included."""

    streams: tuple[IntervalStream, ...]


class Report(_Part):
    """A whole report."""

    intervals: tuple[Interval, ...]
    end: End
    raw: Mapping[str, Any]
    """The same, as written."""


def parse_report(text: str) -> Report:
    """Return iperf3's report.

    Raises:
        ValueError: iperf3 reported an error, or the text is not its report; the message says which.
    """
    if text.startswith("Usage:"):  # its complaint is on standard error
        raise ValueError("iperf3 does not take these options")
    try:
        written = read_untrusted(text)
    except ValueError as error:
        raise ValueError(f"iperf3's report is not JSON ({error}): {text[:200]!r}") from error
    if not isinstance(written, dict) or "end" not in written:
        raise ValueError(f"iperf3's report has no end section: {text[:200]!r}")
    if "error" in written:
        said = str(written["error"])[:500]
        raise ValueError(
            f"iperf3: {said}{next((told for words, told in ADVICE.items() if words in said), '')}"
        )
    try:
        return Report.model_validate({**written, "raw": written})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"iperf3's report, {place}: {first['msg']}") from error
