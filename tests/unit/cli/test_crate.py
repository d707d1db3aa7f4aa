"""A run folder with RO-Crate metadata is a crate that the package rocrate reads and copies."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rocrate.rocrate import ROCrate
from tests.unit.store.examples import PLAN, WALL
from tests.unit.store.stored import GOLDEN

from iolab.cli.main import run as iolab
from iolab.errors import ExitCode
from iolab.store.folder import create_folder

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"


@pytest.fixture(params=["schema-3-first-mixed", "schema-1-first-packets"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Provide a copy of a stored run, with a file whose name needs encoding."""
    folder: Path = tmp_path / "runs" / request.param
    shutil.copytree(GOLDEN / request.param, folder)
    (folder / "two words.txt").write_text("x")
    return folder


def action_of(crate: ROCrate) -> Any:
    """Return the measurement of a crate."""
    (action,) = (each for each in crate.get_entities() if each.type == "CreateAction")
    return action


@pytest.mark.parametrize("packed", [False, True])
def test_crate_is_read_and_copied_by_rocrate(run: Path, tmp_path: Path, packed: bool) -> None:
    """Copy every described file: rocrate fails on files that do not exist."""
    if packed:
        assert iolab(["pack", str(run)]) == ExitCode.DONE
    assert iolab(["report", str(run), "--format", "crate"]) == ExitCode.DONE
    crate = ROCrate(run)
    crate.write(tmp_path / "copy")
    described = {path for path in run.iterdir() if path.name != "ro-crate-metadata.json"}
    assert {path.name for path in (tmp_path / "copy").iterdir()} >= {path.name for path in described}
    assert (tmp_path / "copy" / "two words.txt").read_text() == "x"
    for each in crate.data_entities:
        assert (run / each.id.replace("%20", " ")).exists()


def test_crate_conforms_to_the_process_run_crate_profile(run: Path) -> None:
    """Check the requirements of the profile: action, instrument, object, result, times and status."""
    assert iolab(["report", str(run), "--format", "crate"]) == ExitCode.DONE
    crate = ROCrate(run)
    root, action = crate.root_dataset, action_of(crate)
    assert root["conformsTo"].id == PROFILE
    assert root["mentions"].id == action.id
    assert all(root[key] for key in ("name", "description", "datePublished", "license"))
    assert action["instrument"].type == "SoftwareApplication"
    assert action["instrument"]["softwareVersion"] == "0.1.0"
    assert action["object"].id == "experiment.yaml"
    results = {each.id for each in action["result"]}
    assert {"plan.json", "facts.json", "trials.jsonl"} <= results
    assert action["startTime"] <= action["endTime"]
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"


def test_metadata_names_no_missing_entity(run: Path) -> None:
    """Every reference within the crate has an entity, and every entity a type."""
    assert iolab(["report", str(run), "--format", "crate"]) == ExitCode.DONE
    graph = json.loads((run / "ro-crate-metadata.json").read_text())["@graph"]
    names = [each["@id"] for each in graph]
    assert len(names) == len(set(names))
    assert all("@type" in each for each in graph)
    references = {
        one["@id"]
        for each in graph
        for value in each.values()
        for one in (value if isinstance(value, list) else [value])
        if isinstance(one, dict)
    }
    assert {name for name in references - set(names) if not name.startswith("http")} == set()


def test_crate_describes_only_its_own_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse a different place for the metadata."""
    assert iolab(["report", str(run), "--format", "crate", "-o", "x.json"]) == ExitCode.INPUT_WRONG
    assert "next to it" in capsys.readouterr().err
    assert iolab(["report", str(run), "--format", "crate", "-o", "-"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["@graph"]


def test_run_without_trials_has_no_crate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Say what is missing."""
    folder = create_folder(tmp_path, "x", WALL)
    folder.write_decision((GOLDEN / "schema-3-first-mixed" / "experiment.yaml").read_text(), PLAN, {})
    folder.close()
    assert iolab(["report", str(folder.path), "--format", "crate"]) == ExitCode.INPUT_WRONG
    assert "without trials" in capsys.readouterr().err
