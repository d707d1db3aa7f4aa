"""Search the rates of known devices on each path, and grade them."""

from collections.abc import Iterator
from dataclasses import dataclass

from benches.truth.truth_devices import (
    FRAME_BYTES,
    OUT,
    Device,
    halving,
    htb,
    own_shape,
    policer,
    reference,
    tbf,
)
from benches.truth.truth_judged import (
    PARTIAL,
    QUEUE,
    Blame,
    Figure,
    Grade,
    Outcome,
    grade_figure,
    grade_verdict,
)
from benches.truth.truth_lab import ALONE, Company, beside, kernel_counts, lab_of, later, sustained_fps

from iolab.agent.client import Agent
from iolab.analysis.forwarding import verdict
from iolab.experiment.model.packets import Forwarding
from iolab.report.locale import EN
from iolab.trial.measurement import Measured
from iolab.trial.packets.forwarding import measure_forwarding

SEARCHES = ("bisect", "mlr", "fast")
PATHS = ("af_xdp", "af_packet", "bpf_live")
MARKS = (QUEUE, PARTIAL, "search-disturbed")
"""Warnings that may explain a wrong rate of any known device: its queue, an unfinished search, the host."""
ALWAYS = frozenset({"cpu-shared"})
"""Warnings that every trial has on a small host."""
TRUE_RATIO = 0.003
"""Allowed difference between the kernel's counters and a device's setting [ratio]."""


@dataclass(frozen=True, slots=True)
class RateCase:
    """A device, and a search for its rate."""

    device: Device
    """Device under test."""
    search: str
    """bisect, mlr or fast."""
    path: str
    """Sending path."""
    direction: str = "one-way"
    """Direction."""
    loss_ratio: float = 1e-3
    """Goal."""
    options: str = ""
    """Further keys of the measure."""
    company: Company = ALONE
    """Concurrent foreign work."""

    @property
    def name(self) -> str:
        """Return a description of the case."""
        measured = f"{self.search}, {self.path}, {self.direction}, {self.loss_ratio:g}{self.options}"
        return f"{self.device.name}, {measured}{self.company.name}"

    @property
    def measure(self) -> str:
        """Return the measure of the experiment."""
        return (
            f"kind: forwarding, search: {self.search}, path: {self.path}, direction: {self.direction}, "
            f"frame_size: {FRAME_BYTES}, loss_ratio: {self.loss_ratio:.10f}, width: 0.005, limit: 60s, "
            f"latency_at: []{self.options}"
        )

    @property
    def needs(self) -> str:
        """Return the required program of the device."""
        return self.device.needs

    @property
    def outs(self) -> tuple[str, ...]:
        """Return the egress ports of the device."""
        return tuple(self.device.fps) if self.direction == "both-ways" else (OUT,)

    @property
    def places(self) -> tuple[str, ...]:
        """Return the places where frames are lost above the rate: of the slower direction, or of both."""
        least = min(self.device.fps[out] for out in self.outs)
        return tuple(
            place for out in self.outs if self.device.fps[out] == least for place in self.device.places[out]
        )

    @property
    def truth_fps(self) -> float:
        """Return the highest load whose loss is the ratio of the goal, over all directions [frames/s]."""
        others = self.company.foreign_fps if self.device.shared else 0.0
        rates = sorted(self.device.fps[out] - others for out in self.outs)
        each = rates[0] / (1 - self.loss_ratio * len(rates))
        return len(rates) * (each if each <= rates[-1] else rates[-1] / (1 - self.loss_ratio))


def rate_cases() -> Iterator[RateCase]:
    """Yield every case, the most informative ones first."""
    shallow, deep = tbf(25_000, 64), tbf(25_000, 5_000)
    for device in (shallow, deep, policer(25_000, 64), htb(100_000, 1_000), reference(30_000)):
        yield from (RateCase(device, search, "af_xdp") for search in SEARCHES)
    for path in PATHS[1:]:
        yield from (RateCase(device, "fast", path) for device in (shallow, deep, policer(25_000, 64)))
        yield from (RateCase(shallow, search, path) for search in SEARCHES[:2])
    for device in (shallow, tbf(100_000, 1_000), policer(25_000, 1_000)):
        yield from (RateCase(device, search, "af_xdp", "both-ways") for search in SEARCHES)
    yield from (RateCase(shallow, "fast", path, "both-ways") for path in PATHS[1:])
    yield from (RateCase(tbf(25_000, 64, back_fps=50_000), one, "af_xdp", "both-ways") for one in SEARCHES)
    for shape in (
        own_shape("tbf", 25_000),
        own_shape("htb", 25_000),
        own_shape("tbf", 100_000, ", burst: 9900K"),
    ):
        yield from (RateCase(shape, search, "af_xdp") for search in SEARCHES)
    for device in (
        tbf(100_000, 64, burst=20_000),
        policer(100_000, 20_000),
        tbf(100_000, 20_000),
        htb(100_000, 20_000),
        tbf(100_000, 100_000),
        htb(100_000, 100_000),
        policer(100_000, 100_000),
    ):
        yield from (RateCase(device, search, "af_xdp") for search in SEARCHES)
    yield from (RateCase(halving(50_000), search, "af_xdp") for search in SEARCHES)
    for company in (Company("sender"), Company("device"), Company("", 10_000)):
        for device in (policer(50_000, 64), tbf(50_000, 64)):
            yield from (RateCase(device, search, "af_xdp", company=company) for search in SEARCHES)
    for loss_ratio in (1e-2, 1e-4, 1e-5):
        for device in (tbf(100_000, 64), tbf(100_000, 20_000), reference(100_000)):
            yield from (RateCase(device, search, "af_xdp", loss_ratio=loss_ratio) for search in SEARCHES)


def run_rate(agent: Agent, case: RateCase) -> tuple[Outcome, str]:
    """Build the device, check its rate, search, and judge the result."""
    device = case.device
    made = (device.machine, device.commands, device.shape)
    with lab_of(agent, case.measure, Forwarding, *made) as (site, measure):
        set_fps = device.fps[OUT]
        seen_fps = sustained_fps(site, measure, OUT, set_fps, device.burst_frames)
        before = kernel_counts(case.outs)
        with later(device.during), beside(site, case.company):
            measured = measure_forwarding(site, measure)
        counted = kernel_counts(case.outs) - before
    return judged(case, measured, counted.lost, seen_fps)


def judged(
    case: RateCase, measured: Measured, kernel_lost: int, seen_fps: float | None
) -> tuple[Outcome, str]:
    """Return the outcome of a case and a line about it."""
    sample = measured.packets
    assert sample is not None
    blame = verdict([trial for trial in sample.load_trials if trial.purpose == "search"], sample.rate_fps)
    sheets = [sheet for trial in sample.load_trials for sheet in trial.balances]
    lost = sum(sheet.offered_frames - sheet.forwarded_frames for sheet in sheets)
    unexplained = sum(abs(sheet.unexplained_frames) for sheet in sheets)

    def value_of(name: str) -> float | None:
        metric = measured.metrics.get(name)
        return None if metric is None else metric.value

    figure = Figure(
        truth=case.truth_fps,
        found=value_of("forwarded_fps"),
        marks=frozenset(warning.code for warning in measured.warnings),
        lower=value_of("lower_fps"),
        upper=value_of("upper_fps"),
        sustained=value_of("sustained_fps"),
    )
    grade = grade_figure(figure, (*case.device.marks, *MARKS))
    seen = EN.said.say_all(blame.seen)
    doubt = (
        EN.said.say(blame.doubt)
        if blame.doubt
        else ("most loads close to the rate say something else" if blame.doubtful else "")
    )
    said = grade_verdict(Blame(blame.limit, EN.said.say_any(blame.place), seen, doubt), case.places)
    # Foreign frames have no receiver, but the kernel counts them.
    if lost != kernel_lost and not case.company.foreign_fps:
        grade = Grade.WRONG
    outcome = Outcome(case.name, grade, said, unexplained)
    error = "no rate" if figure.error_ratio is None else f"{figure.found:.0f} ({figure.error_ratio:+.2%})"
    known = "not seen" if seen_fps is None else f"{seen_fps:.0f} ({seen_fps / case.device.fps[OUT] - 1:+.2%})"
    seconds, trials = (measured.metrics[name].value for name in ("search_seconds", "load_trials"))
    return outcome, (
        f"{grade:6} {case.name}: found {error}, truth {figure.truth:.0f}; the kernel saw {known} one way; "
        f"marks: {', '.join(sorted(figure.marks - ALWAYS)) or '-'}; {trials:.0f} trials, {seconds:.1f} s\n"
        f"       verdict {said}: {blame.limit} {blame.place}: {seen}{f'; in doubt: {doubt}' if doubt else ''}\n"
        f"       lost {lost}, by the kernel {kernel_lost}; unexplained {unexplained}"
    )
