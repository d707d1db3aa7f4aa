"""The licence check: copyleft licences of linked code are refused, in any notation."""

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
def test_copyleft_or_missing_licence_is_refused_and_the_package_is_named(licence: str) -> None:
    """Accept the notations of cargo and Python packages."""
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
def test_permissive_licence_or_a_choice_that_includes_one_is_accepted(licence: str) -> None:
    """Let the user choose."""
    assert not [*CHECK["judged"]({"thing": licence})]


def test_licence_exception_applies_only_to_the_reviewed_licence() -> None:
    """Review a package again after a licence change."""
    for name, (licence, _) in CHECK["REASONS"].items():
        assert not [*CHECK["judged"]({name: licence})]
        assert [*CHECK["judged"]({name: "GPL-3.0-only"})]


def test_crates_that_cargo_has_not_fetched_are_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignore the failure of an offline cargo in a new clone."""
    cargo = tmp_path / "cargo"
    cargo.write_text(
        '#!/bin/sh\ncase " $* " in *" --offline "*) exit 101;; esac\necho "{\\"packages\\": []}"\n'
    )
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert CHECK["cargo_metadata"]() == {"packages": []}


def test_build_and_test_dependencies_are_not_linked() -> None:
    """Follow normal dependencies only, to any depth."""
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


def test_licence_of_a_python_package_is_found_in_every_metadata_field() -> None:
    """Check installed packages of the lock file; use the first line of a full licence text."""
    assert CHECK["python_packages"](
        "rich==1.0 \\\n    --hash=x\nno-such-package==2 ; sys_platform == 'win32'\n"
    ) == {"rich": "MIT; License :: OSI Approved :: MIT License"}
    assert CHECK["python_licence"]("MIT", "GPL", ["License :: GPL"]) == "MIT"
    assert CHECK["python_licence"]("", "GNU GPL\nVersion 3", []) == "GNU GPL"


def test_import_that_invalidates_a_licence_exception_is_reported(tmp_path: Path) -> None:
    """Check the GPL module of qemu.qmp."""
    (tmp_path / "good.py").write_text("from qemu.qmp import QMPClient\n")
    assert not [*CHECK["unkept_reasons"](tmp_path)]
    (tmp_path / "bad.py").write_text("from qemu.qmp.legacy import QEMUMonitorProtocol\n")
    assert len([*CHECK["unkept_reasons"](tmp_path)]) == 1


def test_notice_lists_bundled_software_and_is_in_the_wheel() -> None:
    """Include the chart script of reports, and the C library of the agent."""
    notice = (ROOT / "NOTICE").read_text()
    for name in ("Vega-Lite", "Vega-Embed", "glibc", "libgcc", "qemu.qmp"):
        assert name in notice
    assert "NOTICE" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
