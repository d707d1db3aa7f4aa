"""Check that no code with which iolab is linked, or which it loads, has a licence that would apply to iolab too.

The program reads the metadata of cargo and of the installed Python packages, and changes nothing. It needs a network
only if cargo has not yet fetched a crate of the lock file. lint.sh calls it. A licence of the GPL kind is refused. A
weaker licence (LGPL, MPL) is allowed for the packages listed here, each with its reason.
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
"""Packages whose licence a person has read: the licence that they state, and the reason why iolab may use them."""
NOT_IMPORTED = {
    "qemu-qmp": re.compile(
        r"qemu\.qmp\.(?:legacy|qmp_shell|qmp_tui)|qemu\.qmp import .*(?:legacy|qmp_shell|qmp_tui)"
    )
}
"""Package to the pattern of the modules that must not be imported, because otherwise the reason is not valid."""
TARGET = "x86_64-unknown-linux-gnu"


def main() -> int:
    """Print every error and return the exit code."""
    rust, python = rust_packages(cargo_metadata()), python_packages(Path("requirements/run.txt").read_text())
    complaints = [*judged(rust), *judged(python), *unkept_reasons(Path("python"))]
    print("\n".join(complaints) or f"{len(rust)} crates and {len(python)} Python packages checked")
    return 1 if complaints else 0


def judged(licences: Mapping[str, str]) -> Iterator[str]:
    """Report packages that are refused, that need a reason, or that state no licence."""
    for name, licence in licences.items():
        if name in REASONS and REASONS[name][0] == licence:
            continue
        if not licence:
            yield f"{name}: says no licence: read it, and name it in REASONS of scripts/check_licences.py"
        elif not any(is_free(choice) for choice in choices(licence)):
            yield f"{name}: its licence ({licence}) passes on to what is linked with it: use another package"


def choices(licence: str) -> list[str]:
    """Return the licences between which a user of a package may choose."""
    if "(" in licence:  # a choice within an expression is not a choice of the whole licence
        return [licence]
    return re.split(r"\s+OR\s+|/", licence)


def is_free(licence: str) -> bool:
    """Whether a licence imposes no conditions on the programs that use the code."""
    return not REFUSED.search(licence) and not WEAK.search(licence)


def cargo_metadata() -> dict[str, Any]:
    """Return cargo's metadata of the packages from which the agent is built."""
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
    """Return the licences of the crates with which the workspace is linked, without build and test dependencies."""
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
    """Return the licences of the installed packages of a requirements list."""
    names = re.findall(r"^([A-Za-z0-9._-]+)==", requirements, re.MULTILINE)
    found = {}
    for name in dict.fromkeys(names):
        try:
            metadata = distribution(name).metadata.json
        except PackageNotFoundError:  # the package is for a different system or Python version
            continue
        classifiers = (one for one in metadata.get("classifier", ()) if one.startswith("License ::"))
        found[name] = python_licence(
            str(metadata.get("license_expression", "")), str(metadata.get("license", "")), classifiers
        )
    return found


def python_licence(expression: str, text: str, classifiers: Iterable[str]) -> str:
    """Return the licence that a Python package states: the expression if there is one, because this field is newer.

    A licence text may be complete; its first line names the licence.
    """
    first = text.strip().partition("\n")[0]
    return expression or "; ".join(filter(None, [first, *classifiers]))


def unkept_reasons(folder: Path) -> Iterator[str]:
    """Report imports that make the reason for a package invalid."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for name, pattern in NOT_IMPORTED.items():
            if pattern.search(text):
                yield f"{path}: imports a module of {name} that is under the GPL"


if __name__ == "__main__":
    sys.exit(main())
