"""Checks that nothing that iolab is linked with or loads has a licence that would pass on to it.

Reads what cargo and the installed Python packages say of themselves; changes nothing. Needs a network only where cargo
has not fetched a crate of the lock yet. Called by lint.sh.
A licence of the GPL kind is refused. A weaker one (LGPL, MPL) is allowed for packages named here, each with its reason.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

REFUSED = re.compile(r"(?<!l)(?<!lesser )\b(?:a?gpl|eupl)|affero|(?<!lesser )general public", re.IGNORECASE)
WEAK = re.compile(r"\blgpl|lesser general public|\bmpl\b|mozilla", re.IGNORECASE)
REASONS = {
    "qemu-qmp": (
        (
            "License :: OSI Approved :: GNU Lesser General Public License v2 or later (LGPLv2+); "
            "License :: OSI Approved :: GNU General Public License v2 (GPLv2)"
        ),
        (
            "LGPL-2.0-or-later: loaded as it was installed, so a user can exchange it. Only its module legacy.py is "
            "under GPL-2.0, and that is never imported"
        ),
    ),
}
"""Packages whose licence a person has read: what they say of it, and why they may be used."""
NOT_IMPORTED = {
    "qemu-qmp": re.compile(
        r"qemu\.qmp\.(?:legacy|qmp_shell|qmp_tui)|qemu\.qmp import .*(?:legacy|qmp_shell|qmp_tui)"
    )
}
"""What must not be imported for the reason to hold: the module, and those that import it."""
TARGET = "x86_64-unknown-linux-gnu"


def main() -> int:
    """Print every complaint and return the exit code."""
    rust, python = rust_packages(cargo_metadata()), python_packages(Path("requirements/run.txt").read_text())
    complaints = [*judged(rust), *judged(python), *unkept_reasons(Path("python"))]
    print("\n".join(complaints) or f"{len(rust)} crates and {len(python)} Python packages checked")
    return 1 if complaints else 0


def judged(licences: Mapping[str, str]) -> Iterator[str]:
    """Complain of packages that are refused, that need a reason, or that say nothing."""
    for name, licence in licences.items():
        if name in REASONS and REASONS[name][0] == licence:
            continue
        if not licence:
            yield f"{name}: says no licence: read it, and name it in REASONS of scripts/check_licences.py"
        elif not any(is_free(choice) for choice in choices(licence)):
            yield f"{name}: its licence ({licence}) passes on to what is linked with it: use another package"


def choices(licence: str) -> list[str]:
    """Return the licences between which a user of a package may choose."""
    if "(" in licence:  # a choice within an expression is no choice of the whole
        return [licence]
    return re.split(r"\s+OR\s+|/", licence)


def is_free(licence: str) -> bool:
    """Tell whether a licence asks nothing of the programs around it."""
    return not REFUSED.search(licence) and not WEAK.search(licence)


def cargo_metadata() -> dict[str, Any]:
    """Return what cargo knows of the packages that the agent is made of."""
    argv = [
        "cargo",
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        TARGET,
    ]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(argv)}: {ended.stderr.strip()}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def rust_packages(metadata: dict[str, Any]) -> dict[str, str]:
    """Return the licences of the crates that the workspace's own are linked with, not of what only builds or tests."""
    licences = {one["id"]: (one["name"], one["license"] or "") for one in metadata["packages"]}
    linked = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    reached: set[str] = set()
    waiting = list(metadata["workspace_members"])
    while waiting:
        package = waiting.pop()
        if package not in reached:
            reached.add(package)
            waiting += linked[package]
    return dict(sorted(licences[package] for package in reached))


def python_packages(requirements: str) -> dict[str, str]:
    """Return the licences of the packages of a list of requirements that are installed."""
    names = re.findall(r"^([A-Za-z0-9._-]+)==", requirements, re.MULTILINE)
    found = {}
    for name in dict.fromkeys(names):
        try:
            metadata = distribution(name).metadata.json
        except PackageNotFoundError:  # it is for another system or another Python
            continue
        classifiers = (one for one in metadata.get("classifier", ()) if one.startswith("License ::"))
        found[name] = python_licence(
            str(metadata.get("license_expression", "")), str(metadata.get("license", "")), classifiers
        )
    return found


def python_licence(expression: str, text: str, classifiers: Iterable[str]) -> str:
    """Return what a Python package says: the expression alone where there is one; it is the newer way.

    A text may be the whole licence; its first line names it.
    """
    first = text.strip().partition("\n")[0]
    return expression or "; ".join(filter(None, [first, *classifiers]))


def unkept_reasons(folder: Path) -> Iterator[str]:
    """Complain of imports by which the reason for a package no longer holds."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for name, pattern in NOT_IMPORTED.items():
            if pattern.search(text):
                yield f"{path}: imports a module of {name} that is under the GPL"


if __name__ == "__main__":
    sys.exit(main())
