"""RO-Crate metadata of a run folder (RO-Crate 1.1, profile Process Run Crate 0.5), which repositories read.

The run folder is the crate: the metadata describes the files next to it. The measurement is the action; iolab is the
instrument; the experiment file is the object; records and samples are the result.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from iolab.report.locale import Words
from iolab.report.sentences import counted
from iolab.results.trial import Status
from iolab.store.records import EXPERIMENT, LABEL, RunStatus, StoredRun

METADATA = "ro-crate-metadata.json"
"""Name of the metadata file, which RO-Crate fixes."""
CRATE = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
SOFTWARE, ACTION = "#iolab", "#measurement"
ENCODINGS: Mapping[str, str] = {
    ".yaml": "application/yaml",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".zst": "application/zstd",
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".html": "text/html",
    ".md": "text/markdown",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
Entity = dict[str, object]


def metadata(run: StoredRun, version: str, words: Words) -> str:
    """Return the content of `ro-crate-metadata.json` for a run folder with at least one trial.

    `version` is used for iolab if the run does not state the version that recorded it. The metadata has no licence,
    because only the owner of the run can state one; the property `license` says so.
    """
    files = [_data_entity(path) for path in sorted(run.folder.iterdir()) if _is_described(path)]
    began = datetime.fromisoformat(run.trials[0].wall)
    last = run.trials[-1]
    ended = datetime.fromisoformat(last.wall) + timedelta(
        microseconds=(last.result.end_ns - last.result.begin_ns) / 1000
    )
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": run.plan.title or run.name,
        "description": words.text("crate.description", trials=len(counted(run.trials)), run=run.name),
        "datePublished": ended.date().isoformat(),
        "license": words.text("crate.license"),
        "conformsTo": _ref(PROFILE),
        "hasPart": [_ref(str(each["@id"])) for each in files],
        "mentions": _ref(ACTION),
    }
    software: Entity = {
        "@id": SOFTWARE,
        "@type": "SoftwareApplication",
        "name": "iolab",
        "softwareVersion": _recorded_by(run) or version,
        "description": words.text("crate.software"),
    }
    profile: Entity = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    descriptor: Entity = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": _ref(CRATE),
        "about": _ref("./"),
    }
    graph = [descriptor, root, profile, software, _action(run, files, began, ended, words), *files]
    return json.dumps({"@context": f"{CRATE}/context", "@graph": graph}, ensure_ascii=False, indent=1) + "\n"


def _action(run: StoredRun, files: list[Entity], began: datetime, ended: datetime, words: Words) -> Entity:
    done = run.status is RunStatus.COMPLETE
    kind = "Completed" if done else "Failed"
    lost = sum(trial.result.status is not Status.OK for trial in counted(run.trials))
    described = [str(each["@id"]) for each in files]
    action: Entity = {
        "@id": ACTION,
        "@type": "CreateAction",
        "name": words.text("crate.action", title=run.plan.title or run.name),
        "description": words.text("crate.lost", count=lost, total=len(counted(run.trials))),
        "instrument": _ref(SOFTWARE),
        "object": _ref(EXPERIMENT),
        "result": [
            _ref(each)
            for each in described
            if each not in (EXPERIMENT, LABEL) and not each.startswith("report.")
        ],
        "startTime": began.isoformat(timespec="seconds"),
        "endTime": ended.isoformat(timespec="seconds"),
        "actionStatus": f"http://schema.org/{kind}ActionStatus",
    }
    if not done:
        kept = {trial.key for trial in run.trials}
        count = sum(step.key not in kept for step in run.plan.steps)
        action["error"] = words.text("crate.partial", count=count)
    return action


def _data_entity(path: Path) -> Entity:
    """Return the entity of a file, or of a folder as a whole: a run may have a million samples."""
    if path.is_dir():
        return {"@id": f"{quote(path.name)}/", "@type": "Dataset", "name": path.name}
    entity: Entity = {
        "@id": quote(path.name),
        "@type": "File",
        "name": path.name,
        "contentSize": str(path.stat().st_size),
    }
    if path.suffix in ENCODINGS:
        entity["encodingFormat"] = ENCODINGS[path.suffix]
    return entity


def _is_described(path: Path) -> bool:
    return not path.name.startswith(".") and path.name != METADATA and not path.is_symlink()


def _recorded_by(run: StoredRun) -> str:
    """Return the version of iolab that recorded a run; empty: unknown."""
    hello = run.facts.get("hello")
    found = hello.get("version") if isinstance(hello, Mapping) else None
    return found if isinstance(found, str) else ""


def _ref(to: str) -> dict[str, str]:
    return {"@id": to}
