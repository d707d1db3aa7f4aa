"""Write the experiment of a gate: the candidate's file with a factor `subject`; its level `base` sets the values that
differ."""

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Experiment
from iolab.experiment.factors.paths import level_paths
from iolab.locale import Phrase

SUBJECT, CANDIDATE, BASE = "subject", "candidate", "base"
"""Name of the factor, and its labels."""
AGAINST = "--against"
WIDTH = 4096
"""Line length at which YAML text is folded; so large that no line is folded."""


def assigned(text: str) -> tuple[str, object]:
    """Return the path and the value of PATH=VALUE, where the value is YAML.

    Raises:
        InputError: the value is not YAML.
    """
    path, _, value = text.partition("=")
    try:
        return path.strip(), YAML(typ="safe", pure=True).load(value)
    except YAMLError as error:
        allowed = Phrase("check.path-and-value")
        raise InputError([Problem(AGAINST, Phrase("check.reading-the-base"), text, allowed)]) from error


def differences(candidate: Experiment, base: Experiment) -> dict[str, object]:
    """Return the values that a level must set to turn the candidate's lab and measures into those of the base, by path.

    Raises:
        InputError: the factors differ, so the cells of candidate and base cannot be paired.
    """
    if candidate.factors != base.factors:
        raise InputError(
            [
                Problem(
                    AGAINST,
                    Phrase("check.reading-the-base"),
                    Phrase("check.other-factors", source=base.source),
                    Phrase("check.base-with-same-factors"),
                )
            ]
        )
    found: dict[str, object] = {}
    for group in ("machines", "links", "volumes"):
        own, other = (one.tree["lab"].get(group, {}) for one in (candidate, base))
        found |= dict(_differing(own, other, group))
    return found | dict(_differing(candidate.tree["measure"], base.tree["measure"], ""))


def _differing(own: Mapping[str, Any], other: Mapping[str, Any], place: str) -> Iterator[tuple[str, object]]:
    for key in dict.fromkeys((*own, *other)):
        path = f"{place}.{key}" if place else key
        mine, theirs = own.get(key), other.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from _differing(mine, theirs, path)
        elif mine != theirs:
            yield path, theirs


def with_subject(experiment: Experiment, base: Mapping[str, object]) -> str:
    """Return the text of an experiment with the factor `subject`; all else is unchanged.

    Without differences the base sets one value that the candidate has too, so that two equal subjects are measured
    (A/A).

    Raises:
        InputError: the file already has a factor `subject`, or its layout does not allow a further factor.
    """
    yaml = YAML(typ="rt", pure=True)
    yaml.version = (1, 2)
    yaml.width = WIDTH
    doing = Phrase("check.adding-the-subject")
    try:
        document = yaml.load(experiment.text)
    except YAMLError as error:
        allowed = Phrase("check.block-style")
        raise InputError([Problem(f"{experiment.source}:1", doing, type(error).__name__, allowed)]) from error
    factors = document.get("factors") or {}
    if SUBJECT in factors:
        allowed = Phrase("check.factor-other-than-subject")
        raise InputError([Problem(f"{experiment.source}:1", doing, SUBJECT, allowed)])
    factors[SUBJECT] = {CANDIDATE: {}, BASE: dict(base) or _same(experiment)}
    document["factors"] = factors
    out = StringIO()
    yaml.dump(document, out)
    return out.getvalue().removeprefix("%YAML 1.2\n---\n")


def _same(experiment: Experiment) -> dict[str, object]:
    """Return, for each measure, one path that no factor sets, with its value."""
    taken = {path.rpartition(".")[2] for path in level_paths(experiment.factors)}
    found: dict[str, object] = {}
    for measure, content in experiment.tree["measure"].items():
        free = (
            key for key, value in content.items() if isinstance(value, str | int | float) and key not in taken
        )
        found |= {f"{measure}.{key}": content[key] for key in list(free)[1:2]}
    return found
