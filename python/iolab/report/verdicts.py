"""Verdicts in words: what limited a cell, the evidence, and the reasons for doubt."""

from iolab.analysis.forwarding_types import CellLimit, CellTruth, Verdict
from iolab.messages.evidence import Evidence
from iolab.messages.programs import PROGRAM_CODES
from iolab.messages.streams import AllCpusBusy, OfFlow, ProgramRan
from iolab.report import numbers
from iolab.report.names import Names
from iolab.results.verdict import Limit


def limited_by(verdict: Verdict, names: Names) -> str:
    """Return the limit with its place; a doubtful limit is marked as probable."""
    named = cause(verdict, names)
    return names.words.text("packets.probably", limit=named) if verdict.doubtful else named


def cause(verdict: Verdict, names: Names) -> str:
    """Return the limit with its place, unless the place repeats the limit."""
    words, limit, place = names.words, verdict.limit, verdict.place
    name = words.name("packets.limit_names", limit)
    leading = _leading(verdict.seen)
    codes = {clause.code for clause in leading}
    if any(isinstance(one, ProgramRan) and one.machine == getattr(place, "machine", None) for one in leading):
        name = words.name("packets.program_limit_names", limit, name)
    elif AllCpusBusy.code in codes and limit == Limit.CPU:
        name = words.text("packets.all_busy")
    if codes & PROGRAM_CODES:
        name = words.name("packets.own_program_limit_names", limit, name)
    where = "" if place is None or place.code == limit else names.words.said.say(place)
    return words.text("packets.limit_at", limit=name, place=where) if where else name


def _leading(seen: tuple[Evidence, ...]) -> list[Evidence]:
    """Return the first clause, or the first clause of each flow; a flow may have a different limit from the verdict."""
    flows = [clause.clauses for clause in seen if isinstance(clause, OfFlow)]
    return [clause for clauses in flows or [seen] for clause in clauses[:1]]


def verdict_sentence(each: CellTruth | CellLimit, names: Names) -> str:
    """Return the evidence of a verdict, and the host's CPU use at that time."""
    verdict = each.verdict
    clauses = names.words.said.say_all(verdict.seen)
    seen = [_sentence(clauses)] if clauses else []
    seen += [names.words.text("packets.not_certain", doubt=doubt) for doubt in _doubts(each, names)]
    if verdict.cpu is not None:
        busy, idle = numbers.percent(verdict.cpu_busy_ratio, 0), numbers.percent(verdict.idle_ratio, 0)
        seen.append(names.words.text("packets.busy", cpu=verdict.cpu, busy=busy, idle=idle))
    return " ".join(seen) or names.words.text("none")


def _doubts(each: CellTruth | CellLimit, names: Names) -> list[str]:
    words, verdict = names.words, each.verdict
    own = [] if verdict.doubt is None else [words.said.say(verdict.doubt)]
    if 2 * verdict.count >= verdict.total:
        return own
    if isinstance(each, CellLimit):
        return [*own, words.text("packets.few_trials", count=verdict.count, total=verdict.total)]
    return [*own, words.text("packets.few_say_so", count=verdict.count, total=verdict.total)]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
