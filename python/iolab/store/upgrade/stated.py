"""Statements of older schemas as those of today, and words where there were no statements yet."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from iolab.messages.failures import OtherFailure
from iolab.messages.in_words import InWords
from iolab.messages.places import AtPort
from iolab.store.upgrade.steps import Json

UNKNOWN = "unknown"
"""In place of a name that was not recorded."""
ROLES = {"arrivals": "napi"}
"""Roles of threads that have another name now."""
_PORT = re.compile(r"[^ ./]+\.[^ /]+")


def quoted(words: Any) -> Any:
    """Return words as a statement of whatever kind is wanted there; what is stated already stays as it is."""
    return {"code": InWords.code, "said": words} if isinstance(words, str) else words


def if_any(words: Any, stated: Callable[[Any], Any] = quoted) -> Any:
    """Return words as a statement, and none where there are none."""
    return None if words in ("", None) else stated(words)


def failure(words: Any) -> Any:
    """Return the words of an error as the failure that quotes them."""
    return {"code": OtherFailure.code, "said": words} if isinstance(words, str) else words


def is_port(words: str) -> bool:
    """Whether these are the name of a port: machine.port."""
    return _PORT.fullmatch(words) is not None


def place(words: Any) -> Any:
    """Return a place: machine.port, or what else was written (cpu1, kernel, on the way)."""
    return (
        {"code": AtPort.code, "port": words} if isinstance(words, str) and is_port(words) else quoted(words)
    )


def stated(value: Any) -> Any:
    """Return a part of a record of schema 2 with the statements in it as they are today; it is changed in place.

    Their parameters changed a few times while the schema stayed the same.
    """
    if isinstance(value, list):
        for at, each in enumerate(value):
            if isinstance(each, dict | list):
                value[at] = stated(each)
        return value
    if not isinstance(value, dict):
        return value
    for name, each in value.items():
        if isinstance(each, dict | list):
            value[name] = stated(each)
    code = value.get("code")
    change = _CHANGED.get(code) if isinstance(code, str) else None
    return change(value) if change else value


def _with(**parameters: Callable[[Any], Any]) -> Callable[[Json], Json]:
    """Return what changes these parameters of a statement."""

    def change(statement: Json) -> Json:
        return {name: parameters.get(name, _same)(value) for name, value in statement.items()}

    return change


def _same(value: Any) -> Any:
    return value


def _limited(statement: Json) -> Json:
    """The place was a parameter that could be nothing; now those that have one have a code apart."""
    where = if_any(statement.pop("place", None), place)
    return statement if where is None else {**statement, "code": "limited-at", "place": where}


def _renamed(old: str, new: str) -> Callable[[Json], Json]:
    def change(statement: Json) -> Json:
        return {new if name == old else name: value for name, value in statement.items()}

    return change


def _part_broke(statement: Json) -> Json:
    return {"function": UNKNOWN, "package": UNKNOWN, **statement}


def _without_stage(statement: Json) -> Json:
    return {name: value for name, value in statement.items() if name != "stage"}


def _gone(statement: Json) -> Json:
    """Return what was not built then, and is now, as a quotation of its code and parameters."""
    code = statement.pop("code")
    about = ", ".join(f"{name} {value}" for name, value in statement.items() if isinstance(value, str))
    return {"code": InWords.code, "said": f"{code}: {about}"}


_CHANGED: Mapping[str, Callable[[Json], Json]] = {
    "datagrams-dropped": _with(place=place, reason=quoted),
    "depth-held": _renamed("gain_ratio", "gain"),
    "limited": _limited,
    "live-frames-fail": _with(error=failure),
    "lost-at": _with(place=place, reason=quoted),
    "lost-beside": _with(place=place, reason=quoted),
    "lost-by-receiver": _with(reason=quoted),
    "others-dropped": _with(place=place),
    "part-broke": _part_broke,
    "paths-uncompared": _with(error=failure),
    "segments-dropped": _with(place=place, reason=quoted),
    "wire-unbuilt": _without_stage,
    **dict.fromkeys(
        (
            "disk-program-unbuilt",
            "disk-way-unbuilt",
            "disks-unbuilt",
            "export-unbuilt",
            "guest-file-system-unbuilt",
            "pacer-unbuilt",
            "wire-frames-unbuilt",
        ),
        _gone,
    ),
}
"""Code to what became of it."""
