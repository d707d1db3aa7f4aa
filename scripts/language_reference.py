"""Write the tables of docs/reference/experiment-language.md from the models of the language."""

from pathlib import Path

from iolab.experiment.schema import with_tables
from iolab.own_kinds import provide_own_kinds

PAGE = Path(__file__).parents[1] / "docs/reference/experiment-language.md"

if __name__ == "__main__":
    provide_own_kinds()
    PAGE.write_text(with_tables(PAGE.read_text()))
