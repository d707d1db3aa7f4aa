"""Another language is a folder of files: check, plan, run and doctor speak it, and English where it lacks a phrase."""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.cli.examples import FACTS, GOOD, VM, written

from iolab.cli.main import run
from iolab.errors import ExitCode, Refused
from iolab.locale import phrases
from iolab.messages.checks import HostExamined
from iolab.report.locale import words_of
from iolab.run.doctor.examination import Finding, Grade

FILES = {
    "check": 'resolving = "~ losing {place}"\n',
    "meaning": 'file-is-correct = "~ {numbers}, saat {seed}"\n',
    "plan": 'plan-in-short = "~ {title}: {trials}"\ncells-and-reason = "~ {cell} + {others}: {reason}"\n',
    "run": 'host-held-by-lab = "~ {host}: {holders:and}"\nlab-of-process = "labo {lab} {pid}"\n',
    "doctor": 'finding = "~ {mark} {subject}: {seen}"\nmark-good = "bon"\n',
    "report": '[said.sentences]\n"host-free" = "~ libre"\n',
    "errors": 'problem = "~ {where}: {doing} / {seen} / {allowed}"\n',
    "lists": 'comma = " , "\n',
}
"""What the language has; all else is English."""


@pytest.fixture(autouse=True)
def language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A language of the test's own beside English."""
    home = tmp_path / "locale"
    shutil.copytree(phrases.HOME / phrases.ENGLISH, home / phrases.ENGLISH)
    (home / "xx").mkdir()
    for name, text in FILES.items():
        (home / "xx" / f"{name}.toml").write_text(text)
    monkeypatch.setattr(phrases, "HOME", home)
    monkeypatch.chdir(tmp_path)
    phrases.templates.cache_clear()
    yield
    phrases.templates.cache_clear()
    words_of.cache_clear()


def test_check_says_what_a_file_means(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of cells and blocks are not translated, and how a list is joined is."""
    assert run(["check", written(GOOD), "--lang", "xx"]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert "~ 2 cells , 1 block, saat " in printed
    assert "  lab: 2 machines , 1 link; measures: tcp" in printed


def test_check_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error and in JSON."""
    wrong = written(GOOD.replace("from: near", "from: nowhere"))
    assert run(["check", wrong, "--lang", "xx"]) == ExitCode.INPUT_WRONG
    assert "~ lab.yaml:7: ~ losing measure.tcp" in capsys.readouterr().err
    assert run(["check", wrong, "--json", "--lang", "xx"]) == ExitCode.INPUT_WRONG
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["doing"].startswith("~ losing measure.tcp")


def test_plan_says_what_a_run_would_do_and_what_cannot_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is English: the language lacks it."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    assert run(["plan", written(VM), "--lang", "xx"]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    assert "~ Two namespaces: 0 trials\n" in printed.out
    assert "  cannot run on this host: ~ tcp links.lan.mtu=1500 + 1: " in printed.out
    assert "planning: no cell can run on this host (2 cells in total). " in printed.err


def test_run_says_why_it_cannot_begin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is a phrase within the phrase."""
    holder = {"pid": 7, "lab": "a.yaml", "resources": [], "stopped": False}

    def refuse(_lab: str, _resources: object) -> None:
        raise Refused("lease.take", -32003, "host is held", {"holders": [holder]})

    busy = SimpleNamespace(lease=refuse)
    monkeypatch.setattr("iolab.cli.runs.open_agent", lambda: nullcontext(busy))
    assert run(["run", written(GOOD), "--lang", "xx"]) == ExitCode.HOST_CANNOT
    assert capsys.readouterr().err == "iolab: ~ this host: labo a.yaml 7\n"


def test_doctor_says_what_it_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its lines and in the sentences that reports share."""
    finding = Finding("host", Grade.GOOD, (HostExamined(code="host-free"),))
    limited = Finding("SMT", Grade.LIMITED, (HostExamined(code="smt-on"),))
    monkeypatch.setattr("iolab.cli.host.open_agent", lambda _host: nullcontext(None))
    monkeypatch.setattr("iolab.cli.host.read_facts", lambda _agent: (FACTS, {}))
    monkeypatch.setattr("iolab.cli.host.examine", lambda _agent, _facts: [finding, limited])
    assert run(["doctor", "--lang", "xx"]) == ExitCode.DONE
    first, second = capsys.readouterr().out.splitlines()
    assert first == "~ bon host: ~ libre"
    assert second.startswith("~ note SMT: ")


def test_the_next_command_of_a_process_speaks_english(capsys: pytest.CaptureFixture[str]) -> None:
    """A language is an option of one command."""
    run(["check", written(GOOD), "--lang", "xx"])
    run(["check", written(GOOD)])
    assert "  2 cells, 1 block, seed " in capsys.readouterr().out
