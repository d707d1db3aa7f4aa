"""Volumes of a site: devices, folders and targets that take the place of volumes that the lab creates."""

from collections.abc import Mapping
from typing import Any

from iolab.experiment.experiment import Section
from iolab.experiment.model.volumes import Volume
from iolab.experiment.reading.document import Items, Table
from iolab.experiment.reading.problems import Problems
from iolab.experiment.reading.sections import check
from iolab.locale import Phrase

PLACES = ("device", "folder", "target")
"""Keys that name an existing device, folder or target; each volume of a site has one of them."""
WITH = {"device": ("on", "writes"), "folder": ("on",), "target": ("writes",)}
"""Further keys that a volume of a site may have, by the key that names its place."""


def read_volumes(tables: Table, within: str, problems: Problems) -> dict[str, Mapping[str, Any]]:
    """Return the volumes of a site by the name of the lab's volume, or report problems."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, data in tables.items():
        line, doing = tables.lines[name], Phrase("check.reading-site-volume", place=within, volume=name)
        places = [key for key in PLACES if isinstance(data, Mapping) and key in data]
        if len(places) != 1:
            problems.add(line, doing, data, Phrase("check.site-volume"))
            continue
        allowed = (places[0], *WITH[places[0]])
        for key in data:
            if key not in allowed:
                seen, known = Phrase("check.the-key", key=key), Phrase("check.the-keys", keys=list(allowed))
                problems.add(line, doing, seen, known)
        _check_value(name, data, line, problems)
        found[name] = data
    return found


def _check_value(name: str, data: Mapping[str, Any], line: int, problems: Problems) -> None:
    """Report values that a volume cannot have; names of machines are checked on the lab."""
    volume = check(Section("volumes", name), data, line, problems, stored=False, partial=True)
    if isinstance(volume, Volume) and volume.existing_target is not None:
        for problem in volume.existing_target.problems():
            doing = Phrase("check.reading-site-volume", place="site", volume=name)
            problems.add(line, doing, problem.seen, problem.allowed)


def placed_volume(data: Mapping[str, Any], given: Mapping[str, Any]) -> Table:
    """Return the lab's volume with the data of the site.

    A device or a target takes the place of the file and its export; a folder is a different location for the file.
    """
    kept = (
        dict(data)
        if "folder" in given
        else {key: data[key] for key in ("on",) if key in data and "device" in given}
    )
    placed = Table({**kept, **given}, line=getattr(data, "line", 0))
    placed.lines |= dict.fromkeys(placed, getattr(data, "line", 0))
    placed.texts |= getattr(data, "texts", {})
    return placed


def written_value(value: object) -> str:
    """Return a value in YAML's flow style on one line, with quoted texts, to be read again."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {written_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple | Items):
        return "[" + ", ".join(written_value(one) for one in value) + "]"
    if value is None or isinstance(value, bool | int | float):
        return "none" if value is None else str(value).lower()
    text = str(value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if text.isalpha() and text.isascii() else f'"{escaped}"'
