"""Check one load trial against faults of known size: its counts against the kernel's, and the named cause."""

from benches.harness.truth_words import in_words
from benches.truth.truth_fault_cases import FaultCase
from benches.truth.truth_judged import Blame, Grade, Outcome, grade_verdict
from benches.truth.truth_lab import beside, kernel_counts, lab_of, later, ruled

from iolab.agent.client import Agent
from iolab.experiment.model.packets import Latency
from iolab.report.locale import EN
from iolab.trial.measurement import Measured
from iolab.trial.packets.load_curve import measure_latency

SLACK_RATIOS = {"reordered_frames": 0.02}
"""Allowed deviation from the kernel's count: the first frames of a slow class are not overtaken [ratio]."""
SHORT_RATIO = 0.99
"""Minimum share of the load that a trial offers without a warning [ratio]."""
SHORT_LIMITS = ("host", "generator")
"""Limits of the verdicts that state such a shortage."""


def run_fault(agent: Agent, case: FaultCase) -> tuple[Outcome, str]:
    """Inject the fault, run one trial, and judge its counts and its verdict."""
    with lab_of(agent, case.measure, Latency, case.machine, case.commands) as (site, measure):
        before = kernel_counts(case.outs)
        with later(case.during), beside(site, case.company):
            measured = measure_latency(site, measure)
        counted = kernel_counts(case.outs) - before
        told = {name: ruled(port) for name, port in case.counted.items()}
        if "lost_frames" in told:
            told["lost_frames"] += counted.refused
        elif not case.doubled:
            told["lost_frames"] = counted.lost
    return judged(case, measured, told)


def judged(case: FaultCase, measured: Measured, told: dict[str, int]) -> tuple[Outcome, str]:
    """Return the outcome of a case and a line about it; `told` are the kernel's counts, by figure."""
    assert measured.packets is not None
    (row,) = measured.packets.load_trials
    found = {metric.name: metric.value for metric in measured.metrics if metric.dimensions.whole}
    found["lost_frames"] = row.result.lost_frames
    wrong = [
        f"{name} {found[name]:.0f}, by the kernel {frames}"
        for name, frames in told.items()
        if abs(found[name] - frames) > SLACK_RATIOS.get(name, 0) * frames
    ]
    marks = sorted(warning.code for warning in measured.warnings if warning.code != "cpu-shared")
    said = row.verdict
    short = row.offered_fps < SHORT_RATIO * row.intended_fps
    if short and not marks and said.limit not in SHORT_LIMITS:
        wrong.append(f"offered {row.offered_fps:.0f} of {row.intended_fps:.0f} frames/s without a word")
    figure = Grade.WRONG if wrong else Grade.RIGHT
    doubt = in_words([said.doubt] if said.doubt else [])
    blame = Blame(said.limit, EN.said.say_any(said.place), in_words(said.seen), doubt)
    # If the sender fell short, a verdict on the sender is right. If no fault lost frames, a verdict on the host is
    # right too.
    places = case.places
    if short:
        places = (*places, "generator") if places else (*SHORT_LIMITS, "none")
    verdict = grade_verdict(blame, places, case.words)
    drops = [f"{drop.place} {drop.reason} {drop.frames}" for sheet in row.balances for drop in sheet.drops]
    offered = f"offered {row.offered_fps:.0f} of {row.intended_fps:.0f} frames/s"
    lost = f"lost {row.result.lost_frames} of {row.result.offered_frames}"
    disorder = f"reordered {found['reordered_frames']:.0f}, duplicate {found['duplicate_frames']:.0f}"
    doubt = f"; in doubt: {blame.doubt}" if blame.doubt else ""
    return Outcome(case.name, figure, verdict, row.unexplained_frames), (
        f"{figure:6} {case.name}: {'; '.join(wrong) or 'counts right'}; {lost}; {offered}; {disorder}; "
        f"marks: {', '.join(marks) or '-'}\n"
        f"       verdict {verdict}: {said.limit} {said.place}: {blame.text}{doubt}\n"
        f"       sheet: {', '.join(drops) or '-'}; unexplained {row.unexplained_frames}"
    )
