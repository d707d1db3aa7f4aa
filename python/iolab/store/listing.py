"""Runs in a list: a summary of each run folder, filters such as `status=partial,tag=lab7|lab8`, and sorting."""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from iolab.errors import InputError, Problem, StoreError
from iolab.locale import Phrase, Text
from iolab.results.trial import Status
from iolab.store.labels import Label, read_label
from iolab.store.read import load_run

UNREADABLE = "unreadable"
"""Status of a folder that cannot be read."""
STARTED = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)")
"""Pattern of the start time at the beginning of a folder's name."""
CONDITION = re.compile(r"\s*(\w+)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FILTER, SORT = "--filter", "--sort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """The summary of a run folder."""

    folder: Path
    started: str = ""
    """Start time from the folder's name as YYYY-MM-DDTHH:MM:SS; empty: the name has no time."""
    title: str = ""
    status: str = UNREADABLE
    """complete, partial or unreadable."""
    reason: str = ""
    """Why the folder is unreadable."""
    planned: int = 0
    """Number of planned trials."""
    trials: Mapping[str, int] = field(default_factory=dict)
    """Number of steps by the status of their last trial."""
    label: Label = field(default_factory=Label)


def listed(folder: Path) -> ListedRun:
    """Return the summary of a run folder; for an unreadable folder, the summary has the reason."""
    begun = STARTED.match(folder.name)
    started = "{}-{}-{}T{}:{}:{}".format(*begun.groups()) if begun else ""
    label = Label()
    try:
        label = read_label(folder)
        run = load_run(folder)
    except (StoreError, InputError) as error:
        return ListedRun(folder=folder, started=started, reason=str(error), label=label)
    last = {record.key: record.result.status.value for record in run.trials}
    return ListedRun(
        folder=folder,
        started=started,
        title=run.plan.title,
        status=run.status.value,
        planned=len(run.plan.steps),
        trials=dict(Counter(last.values())),
        label=label,
    )


def _count(status: str, run: ListedRun) -> int:
    return run.trials.get(status, 0)


TEXTS: Mapping[str, Callable[[ListedRun], Sequence[str]]] = {
    "name": lambda run: (run.folder.name,),
    "title": lambda run: (run.title,),
    "status": lambda run: (run.status,),
    "started": lambda run: (run.started,),
    "tag": lambda run: run.label.tags or ("",),
    "note": lambda run: (run.label.note,),
}
"""Keys whose values are texts, which are compared with patterns."""
NUMBERS: Mapping[str, Callable[[ListedRun], int]] = {
    "planned": lambda run: run.planned,
    "trials": lambda run: sum(run.trials.values()),
    **{status.value: partial(_count, status.value) for status in Status},
}
"""Keys whose values are numbers."""
FILTER_KEYS = (*TEXTS, *NUMBERS)
SORT_KEYS = tuple(key for key in FILTER_KEYS if key not in ("tag", "note"))

Condition = Callable[[ListedRun], bool]


def filters(texts: Iterable[str]) -> Condition:
    """Return whether a run matches at least one of the expressions; without expressions, every run matches.

    An expression is a list of conditions, separated by commas, which must all hold: `key=pattern|pattern`,
    `key!=pattern`, and for numbers and `started` also `<`, `<=`, `>` and `>=`.

    Raises:
        InputError: an expression has an unknown key or an invalid condition; the error lists all of them.
    """
    problems: list[Problem] = []
    every = [[_condition(part, problems) for part in text.split(",")] for text in texts]
    if problems:
        raise InputError(problems)
    return lambda run: not every or any(all(holds(run) for holds in conditions) for conditions in every)


def _condition(text: str, problems: list[Problem]) -> Condition:
    doing = Phrase("store.reading-a-filter")
    match = CONDITION.fullmatch(text)
    if match is None:
        problems.append(Problem(FILTER, doing, repr(text), Phrase("store.form-of-filters")))
        return lambda _: False
    key, sign, value = match[1], match[2], match[3].strip()
    if key in NUMBERS:
        return _number(key, sign, value, problems)
    if key not in TEXTS:
        problems.append(unknown_key(FILTER, doing, key, FILTER_KEYS))
        return lambda _: False
    texts = TEXTS[key]
    if sign in ORDER:
        if key != "started":
            allowed = Phrase("store.signs-for-texts", key=key)
            problems.append(Problem(FILTER, doing, repr(text), allowed))
        compare = ORDER[sign]
        return lambda run: any(one != "" and compare(one, value) for one in texts(run))
    patterns = [each.strip().casefold() for each in value.split("|")]

    def equal(run: ListedRun) -> bool:
        return any(fnmatchcase(one.casefold(), pattern) for one in texts(run) for pattern in patterns)

    return equal if sign == "=" else lambda run: not equal(run)


def _number(key: str, sign: str, value: str, problems: list[Problem]) -> Condition:
    read = NUMBERS[key]
    if not all(each.strip().isdecimal() for each in value.split("|")) or (sign in ORDER and "|" in value):
        seen, allowed = repr(f"{key}{sign}{value}"), Phrase("store.number-for-key", key=key)
        problems.append(Problem(FILTER, Phrase("store.reading-a-filter"), seen, allowed))
        return lambda _: False
    numbers = {int(each) for each in value.split("|")}
    if sign in ORDER:
        compare, bound = ORDER[sign], min(numbers)
        return lambda run: compare(read(run), bound)
    return lambda run: (read(run) in numbers) == (sign == "=")


def unknown_key(option: str, doing: Text, key: str, allowed: Sequence[str]) -> Problem:
    """Return the problem that an option names an unknown key."""
    near = get_close_matches(key, allowed, n=1, cutoff=0.5)
    advice: Text = Phrase("units.did-you-mean-any", words=near) if near else ""
    return Problem(option, doing, repr(key), ", ".join(allowed), advice)


def in_order(runs: Sequence[ListedRun], key: str) -> list[ListedRun]:
    """Return the runs sorted by a key; with a leading minus sign, the largest or newest first. Equal runs keep their
    order.

    Raises:
        InputError: the key is unknown.
    """
    name = key.removeprefix("-")
    if name not in SORT_KEYS:
        raise InputError([unknown_key(SORT, Phrase("store.sorting-runs"), name, SORT_KEYS)])

    def value(run: ListedRun) -> tuple[int, str]:
        return (NUMBERS[name](run), "") if name in NUMBERS else (0, TEXTS[name](run)[0].casefold())

    return sorted(runs, key=value, reverse=key.startswith("-"))
