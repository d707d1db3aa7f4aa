"""What the files and folders in a run's folder are called: the one who writes them and those who read them share it."""

from pathlib import Path

EXPERIMENT, PLAN, FACTS = "experiment.yaml", "plan.json", "facts.json"
TRIALS, COMMANDS, SAMPLES, REVISIONS = "trials.jsonl", "commands.jsonl", "samples", "revisions"
RAW, PACKETS, SERIES = ".raw.json.gz", ".packets.json.gz", ".parquet"
"""Endings of what a trial stores in the samples folder, after its key."""
FIRST_RAW = ".json.gz"
"""The same of RAW, in runs of the first versions: what is now in the file PACKETS was a part of it."""
MACHINES = "machines"
PACKAGE_LISTS = "packages"
DECIDED = "decided"
"""Folder of a decision that counts and whose files are not all in their places yet."""
KEPT = "kept.json"
"""In a revision: how many lines of the run's trials there were when it was kept."""


def records_folder(folder: Path) -> Path:
    """Return where the trials and samples of a run lie: a revision's are with the run that it is of."""
    whole = folder.resolve()
    return whole.parent.parent if whole.parent.name == REVISIONS else folder
