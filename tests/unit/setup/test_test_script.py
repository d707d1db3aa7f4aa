"""`make test` and `make test-all`, with stand-ins for the programs that they call."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "test.sh"
ROOT = SCRIPT.parents[1]
PYTEST = """#!/bin/sh
echo "$*" >>asked
case "$*" in *tests/unit*) echo 'SKIPPED [2] tests/unit/a.py:7: needs zsh'; echo '9 passed, 2 skipped in 1.00s';;
*'-m not full'*--ignore=*) echo "${GUESTS:-3 passed in 2.00s (0:00:02)}"; exit "${STATUS:-0}";;
*' tests/guest/image') echo '21 passed in 1.00s';;
*) echo 'no tests ran in 0.10s'; exit 5;; esac
"""
CARGO = """#!/bin/sh
case "$*" in *--no-run*) exit;; esac
echo '..skipped a_test: it makes network namespaces'
echo 'test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s'
"""


def run_script(folder: Path, which: str, **environment: str) -> tuple[int, str, str]:
    """Run the script in a folder; return its status, its summary, and the calls of pytest."""
    stand_ins = {
        ".venv/bin/pytest": PYTEST,
        ".venv/bin/iolab": "#!/bin/sh\necho linux /image\n",
        "bin/cargo": CARGO,
        "bin/make": "#!/bin/sh\n",
        "scripts/lint.sh": "#!/bin/sh\necho lint: passed\n",
    }
    for name, text in stand_ins.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / "tests").symlink_to(ROOT / "tests")
    programs = f"{folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        ["bash", str(SCRIPT), which],
        cwd=folder,
        env={"PATH": programs, **environment},
        capture_output=True,
        text=True,
    )
    summary = done.stdout.partition("test: summary\n")[2]
    return done.returncode, summary, (folder / "asked").read_text()


def test_make_test_runs_every_group_without_tests_marked_full(tmp_path: Path) -> None:
    """Print the closing line of each runner, and skipped tests by reason."""
    status, summary, asked = run_script(tmp_path, "core")
    assert status == 0
    assert all("not full and" in line for line in asked.splitlines())
    assert "units          9 passed, 2 skipped in 1.00s" in summary
    assert "agent          4 passed, 0 failed, 1 ignored (Rust)" in summary
    assert "   2 needs zsh" in summary
    assert "   1 it makes network namespaces" in summary
    assert "second tries: 0 (at most 3)" in summary


def test_make_test_all_runs_the_core_and_then_tests_marked_full(tmp_path: Path) -> None:
    """Run both parts of every file of lab tests once."""
    status, _, asked = run_script(tmp_path, "all")
    assert status == 0
    lines = [line for line in asked.splitlines() if "tests/unit" not in line]
    for name in ("tests/netns/test_line.py", "tests/netns/test_disks.py", "tests/netns/test_pacer.py"):
        (core,) = [line for line in lines if name in line.split() and "not full and" in line]
        (full,) = [line for line in lines if name in line.split() and "-m full and" in line]
        assert lines.index(core) < lines.index(full)
    assert [line for line in lines if line.endswith("tests/guest/image")] != []


@pytest.mark.parametrize(("reruns", "expected"), [(3, 0), (4, 1)])
def test_more_than_three_reruns_fail_the_run(tmp_path: Path, reruns: int, expected: int) -> None:
    """Report them, because reruns hide defects."""
    status, summary, _ = run_script(tmp_path, "core", GUESTS=f"3 passed, {reruns} rerun in 2.00s")
    assert (status, f"second tries: {reruns} (at most 3)" in summary) == (expected, True)
    assert ("FAILED: second tries" in summary) == (expected == 1)


def test_failed_group_fails_the_run_after_all_groups_have_run(tmp_path: Path) -> None:
    """Skip nothing."""
    status, summary, asked = run_script(tmp_path, "core", GUESTS="1 failed, 2 passed in 2.00s", STATUS="1")
    assert status == 1
    assert "guests         1 failed, 2 passed in 2.00s" in summary
    assert "tests/netns/test_pacer.py" in asked
