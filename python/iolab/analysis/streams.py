"""What limited the streams of each cell, by the verdicts of their trials. Pure."""

from collections import Counter
from collections.abc import Sequence

from iolab.analysis.forwarding_types import CellLimit, StreamLimits, Verdict
from iolab.plan.types import Plan
from iolab.record.trial import Status
from iolab.record.verdict import Verdict as TrialVerdict
from iolab.store.records import TrialRecord


def stream_limits(trials: Sequence[TrialRecord], plan: Plan) -> tuple[StreamLimits, ...]:
    """Return the commonest limit of every cell whose trials have a verdict of their own, by measure."""
    last = {trial.key: trial for trial in trials if trial.result.status is Status.OK}
    found: dict[str, dict[frozenset[tuple[str, str]], list[TrialRecord]]] = {}
    for trial in last.values():
        if trial.result.verdict is not None:
            cells = found.setdefault(trial.measure, {})
            cells.setdefault(frozenset(trial.cell.items()), []).append(trial)
    return tuple(
        StreamLimits(
            measure,
            tuple(
                CellLimit(cell, commonest([one.result.verdict for one in own if one.result.verdict]))
                for cell in plan.in_order([own[0].cell for own in cells.values()])
                for own in (cells[frozenset(cell.items())],)
            ),
        )
        for measure, cells in found.items()
    )


def commonest(verdicts: Sequence[TrialVerdict]) -> Verdict:
    """Return the limit of most trials of a cell, with what one of them shows: one without a doubt, if there is any."""
    (limit, place), count = Counter((one.limit, one.place) for one in verdicts).most_common(1)[0]
    alike = [one for one in verdicts if (one.limit, one.place) == (limit, place)]
    stands = min(alike, key=lambda one: one.doubt is not None)
    return Verdict(
        limit=limit,
        place=place,
        seen=stands.seen,
        doubt=stands.doubt,
        count=count,
        total=len(verdicts),
        cpu=None,
        cpu_busy_ratio=0.0,
        idle_ratio=0.0,
    )
