"""The check of licences: what passes on to the program that is linked with it is refused, whatever way it is said."""

import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHECK = runpy.run_path(str(ROOT / "scripts" / "check_licences.py"))


@pytest.mark.parametrize(
    "licence",
    [
        "GPL-3.0-only",
        "AGPL-3.0-or-later",
        "EUPL-1.2",
        "LGPL-2.1-or-later",
        "MPL-2.0",
        "MIT AND GPL-2.0-only",
        "(MIT OR Apache-2.0) AND GPL-2.0-only",
        "GPL-2.0-only OR LGPL-2.1-only",
        "GPLv2/LGPLv2+",
        "GNU GENERAL PUBLIC LICENSE",
        "License :: OSI Approved :: GNU Affero General Public License v3",
        "License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)",
        "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
        "",
    ],
)
def test_a_licence_that_passes_on_is_refused_by_the_packages_name(licence: str) -> None:
    """As cargo and Python packages write it; one that says nothing is refused too."""
    (complaint,) = CHECK["judged"]({"thing": licence})
    assert complaint.startswith("thing: ")


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ],
)
def test_a_free_licence_or_a_choice_that_holds_one_passes(licence: str) -> None:
    """Of a choice the user takes what suits."""
    assert not [*CHECK["judged"]({"thing": licence})]


def test_a_reason_holds_for_the_licence_that_was_read_only() -> None:
    """A package that changes its licence is read again."""
    for name, (licence, _) in CHECK["REASONS"].items():
        assert not [*CHECK["judged"]({name: licence})]
        assert [*CHECK["judged"]({name: "GPL-3.0-only"})]


def test_crates_that_cargo_has_not_fetched_yet_are_no_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new clone nothing has fetched the tests' crates: a cargo that may not fetch says so and fails."""
    cargo = tmp_path / "cargo"
    cargo.write_text(
        '#!/bin/sh\ncase " $* " in *" --offline "*) exit 101;; esac\necho "{\\"packages\\": []}"\n'
    )
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert CHECK["cargo_metadata"]() == {"packages": []}


def test_what_only_builds_or_tests_is_not_linked() -> None:
    """Of the kinds of dependencies only the normal one is followed, to any depth."""
    metadata = {
        "packages": [{"id": name, "name": name, "license": f"licence of {name}"} for name in "abcd"],
        "workspace_members": ["a"],
        "resolve": {
            "nodes": [
                {
                    "id": "a",
                    "deps": [
                        {"pkg": "b", "dep_kinds": [{"kind": None}]},
                        {"pkg": "d", "dep_kinds": [{"kind": "dev"}, {"kind": "build"}]},
                    ],
                },
                {"id": "b", "deps": [{"pkg": "c", "dep_kinds": [{"kind": "dev"}, {"kind": None}]}]},
                {"id": "c", "deps": []},
                {"id": "d", "deps": []},
            ]
        },
    }
    assert [*CHECK["rust_packages"](metadata)] == ["a", "b", "c"]


def test_what_a_python_package_says_is_found_wherever_it_says_it() -> None:
    """The packages of the lock that are installed; a whole licence as text counts by its first line."""
    assert CHECK["python_packages"](
        "rich==1.0 \\\n    --hash=x\nno-such-package==2 ; sys_platform == 'win32'\n"
    ) == {"rich": "MIT; License :: OSI Approved :: MIT License"}
    assert CHECK["python_licence"]("MIT", "GPL", ["License :: GPL"]) == "MIT"
    assert CHECK["python_licence"]("", "GNU GPL\nVersion 3", []) == "GNU GPL"


def test_an_import_by_which_a_reason_no_longer_holds_is_told(tmp_path: Path) -> None:
    """The module of qemu.qmp that is under the GPL."""
    (tmp_path / "good.py").write_text("from qemu.qmp import QMPClient\n")
    assert not [*CHECK["unkept_reasons"](tmp_path)]
    (tmp_path / "bad.py").write_text("from qemu.qmp.legacy import QEMUMonitorProtocol\n")
    assert len([*CHECK["unkept_reasons"](tmp_path)]) == 1


def test_the_notice_names_what_is_handed_on_and_is_in_the_wheel() -> None:
    """The charts' script in every report, and the C library in the agent's binary."""
    notice = (ROOT / "NOTICE").read_text()
    for name in ("Vega-Lite", "Vega-Embed", "glibc", "libgcc", "qemu.qmp"):
        assert name in notice
    assert "NOTICE" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
