"""Commands that need no lab: exit codes, messages on invalid input, and no traceback."""

import json
import re
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.cli.examples import FACTS, GOOD, VM, written
from tests.unit.store.examples import PLAN, record

from iolab.cli.main import run
from iolab.cli.screen import console
from iolab.errors import AgentError, ExitCode
from iolab.results.trial import Status
from iolab.store.folder import create_folder


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a temporary folder."""
    monkeypatch.chdir(tmp_path)


def test_check_describes_a_valid_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Print cells, blocks and factors on standard output; exit with code 0."""
    assert run(["check", written(GOOD)]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert "links.lan.mtu: 1500, 9000" in printed
    assert "2 cells" in printed


def test_unknown_word_is_reported_with_its_line_and_the_nearest_valid_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit with code 2; name file, line, the word, and the nearest valid one."""
    assert run(["check", written(GOOD.replace("kind: stream", "kind: steam"))]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "lab.yaml:7" in complaint
    assert "steam" in complaint
    assert "stream" in complaint


def test_check_reports_the_line_of_link_ends_that_cannot_be_connected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refuse it at check, not only at planning."""
    text = GOOD.replace("near: {kind: netns}", "near: {kind: host, ssh: pc6}")
    assert run(["check", written(text)]) == ExitCode.INPUT_WRONG
    told = "lab.yaml:5: connecting ports of lab.links.lan.ends: saw near.eth0 on near, far.eth0 on this host"
    assert told in capsys.readouterr().err


def test_check_reports_all_errors_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Print three lines for three mistakes."""
    text = GOOD.replace("to: far", "to: nowhere, windw: 4").replace("kind: netns}, far", "kind: netms}, far")
    assert run(["check", written(text.replace("[1500, 9000]", "[1500, lots]"))]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert [word for word in ("nowhere", "windw", "netms", "lots") if word not in complaint] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "absent.yaml"],
        ["check", "."],
        ["run", "absent.yaml"],
        ["plan", "absent.yaml"],
        ["show", "absent"],
        ["report", "absent"],
        ["compare", "absent", "absent"],
        ["resume", "absent"],
        ["extend", "absent", "absent.yaml"],
        ["run"],
        ["frobnicate"],
        ["report", "absent", "--format", "pdf"],
        ["run", "x.yaml", "--blocks", "0"],
    ],
    ids=" ".join,
)
def test_invalid_input_exits_with_code_2_and_no_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Report any missing or misspelt argument with a message."""
    assert run(arguments) == ExitCode.INPUT_WRONG
    captured = capsys.readouterr()
    assert captured.err.strip()
    assert "Traceback" not in captured.err + captured.out
    assert "internal error" not in captured.err


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 1000,
        b"\xff\xfe\xfa" * 400_000,
        b"[" * 500_000,
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"{" * 50_000,
        b"x" * 1_000_000,
        b"- " * 300_000,
        b"",
        b"%YAML 9.9\n---\n",
    ],
    ids=[
        "nul",
        "not utf-8",
        "deep list",
        "aliases",
        "deep map",
        "one word",
        "dashes",
        "empty",
        "future yaml",
    ],
)
def test_check_refuses_a_garbage_file_with_code_2(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse anything that is not an experiment."""
    Path("garbage.yaml").write_bytes(content)
    assert run(["check", "garbage.yaml"]) == ExitCode.INPUT_WRONG
    assert "garbage.yaml" in capsys.readouterr().err


def test_schema_command_prints_a_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """Include the language's top-level keys."""
    assert run(["schema"]) == ExitCode.DONE
    assert {"title", "lab", "measure"} <= set(json.loads(capsys.readouterr().out)["properties"])


def test_command_new_writes_a_valid_experiment_and_never_overwrites_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pass check; refuse the file the second time."""
    assert run(["new", "mine"]) == ExitCode.DONE
    assert run(["check", "mine.yaml"]) == ExitCode.DONE
    assert run(["new", "mine"]) == ExitCode.INPUT_WRONG
    assert "saw an existing file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0b"])
def test_command_new_refuses_an_invalid_file_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Give an example of a name; write nothing."""
    before = sorted(Path().iterdir())
    assert run(["new", name]) == ExitCode.INPUT_WRONG
    assert "reading the name of the new experiment" in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


def test_system_error_without_a_file_is_reported_with_its_code_location(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Add the location, because "Invalid argument" alone does not help."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("iolab.cli.main.app", refuse)
    assert run(["doctor"]) == ExitCode.HOST_CANNOT
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("iolab: `iolab doctor` failed at test_commands.py:")


def test_clean_of_an_unreachable_host_exits_with_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    """Name the host."""
    assert run(["clean", "--host", "pc6"]) == ExitCode.HOST_CANNOT
    assert "pc6" in capsys.readouterr().err


def test_missing_agent_exits_with_code_3_and_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """State where the agent was searched, and a remedy."""
    monkeypatch.setenv("IOLAB_AGENT", "/nowhere/iolab-agent")
    assert run(["doctor"]) == AgentError.exit_code
    assert "make setup" in capsys.readouterr().err


def test_console_does_not_replace_words_between_colons_with_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    """Print resource names, which contain colons, unchanged."""
    console().print("making setting:a:net.ipv4.tcp_rmem")
    assert "setting:a:net" in capsys.readouterr().out


def test_check_of_several_files_reports_the_errors_of_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Describe the valid file, and name the lines of the others."""
    wrong = [written(GOOD.replace("stream", word), f"{word}.yaml") for word in ("steam", "dream")]
    assert run(["check", written(GOOD), *wrong]) == ExitCode.INPUT_WRONG
    seen = capsys.readouterr()
    assert "lab.yaml: Two namespaces" in seen.out
    assert "steam.yaml:7" in seen.err
    assert "dream.yaml:7" in seen.err


def test_check_json_contains_valid_experiments_and_problems(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit with the same code as the text form, for editors and CI."""
    names = [written(GOOD), written(GOOD.replace("stream", "steam"), "wrong.yaml")]
    assert run(["check", "--json", *names]) == ExitCode.INPUT_WRONG
    told = json.loads(capsys.readouterr().out)
    assert told["correct"] == [
        {
            "file": "lab.yaml",
            "title": "Two namespaces",
            "factors": {"links.lan.mtu": ["1500", "9000"]},
            "cells": 2,
            "blocks": 1,
            "seed": 1,
        }
    ]
    assert [problem["where"] for problem in told["problems"]] == ["wrong.yaml:7"]
    assert run(["check", "--json", names[0]]) == ExitCode.DONE


def test_list_shows_trial_statuses_and_unreadable_run_folders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Read the other runs despite invalid UTF-8, nested lists and wrong types."""
    for name, plan in (
        ("0-a", b"\xff\xfe"),
        ("0-b", b"[" * 100_000),
        ("0-c", b'{"steps": 7}'),
        ("0-d", b"null"),
    ):
        folder = Path("runs", name)
        folder.mkdir(parents=True)
        (folder / "plan.json").write_bytes(plan)
        (folder / "facts.json").write_text("{}")
    whole = create_folder(Path("runs"), "whole", datetime(2026, 1, 1, tzinfo=UTC))
    whole.write_decision("title: x\n", PLAN, {})
    for key, status in (("k0", Status.FAILED), ("k1", Status.OK)):
        whole.append_trial(record(key, status=status))
    whole.close()
    assert run(["list"]) == ExitCode.DONE
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert ["unreadable" in line for line in lines] == [True, True, True, True, False]
    assert "complete  2 trials: 1 failed, 1 ok  A plan" in last
    assert run(["list", "--json"]) == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [one["status"] for one in told] == ["unreadable"] * 4 + ["complete"]
    assert told[-1]["trials"] == {"failed": 1, "ok": 1}


def test_list_without_runs_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Print an empty list for an empty folder."""
    assert run(["list"]) == ExitCode.DONE
    assert "no runs" in capsys.readouterr().out


def test_plan_without_a_runnable_cell_exits_with_code_3_and_the_reasons(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let scripts detect it; `--json` prints the document all the same."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    assert run(["plan", written(VM)]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    assert (
        "no cell can run on this host (2 cells in total). First reason: tcp links.lan.mtu=1500: "
        in printed.err
    )
    assert "cannot run on this host: tcp links.lan.mtu=1500 and 1 more cells: " in printed.out
    assert run(["plan", written(VM), "--json"]) == ExitCode.HOST_CANNOT
    assert json.loads(capsys.readouterr().out)["steps"] == []


REMOTE = """
title: One host
lab:
  machines:
    pc6: {kind: host, ssh: pc6.lab}
    near: {kind: netns, on: pc6}
    far: {kind: netns, on: pc6}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, from: near, to: far}
"""


def test_plan_names_the_hosts_with_unknown_cpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do not contact the hosts; the run does, and may pin to other CPUs."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    run(["plan", written(REMOTE)])
    assert "the CPUs of pc6 are unknown before the run" in capsys.readouterr().out
    run(["plan", written(REMOTE), "--json"])
    assert json.loads(capsys.readouterr().out)["hosts_not_asked"] == ["pc6"]
    run(["plan", written(GOOD)])
    assert "unknown before the run" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"schema": 3}'])
def test_damaged_plan_is_reported_by_list_and_show_without_a_traceback(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """List the other runs; exit `show` with code 3; name no exception."""
    folder = Path("runs/20260101T000000-x")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(text)
    (folder / "facts.json").write_text("{}")
    assert run(["list"]) == ExitCode.DONE
    assert run(["show", str(folder)]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    for said in (printed.out, printed.err):
        assert "cannot read plan.json" in said
        assert "Error" not in said


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_every_problem_line_begins_with_file_and_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Use the format of compilers, so that an editor can jump to it, including problems without a line."""
    wrong = GOOD.replace("kind: stream", "kind: steam").replace("[1500, 9000]", "[1500, lots]")
    for text, least in ((wrong, 2), ("", 1), ("#" * 70_000, 1), (GOOD.partition("measure:")[0], 1)):
        assert run([command, written(text)]) == ExitCode.INPUT_WRONG
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) >= least
        for line in lines:
            assert re.match(r"lab\.yaml:[1-9][0-9]*: ", line), line
