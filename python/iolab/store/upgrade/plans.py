"""Plans of older schemas."""

from pydantic_core import SchemaValidator, core_schema

from iolab.errors import StoreError
from iolab.locale import Phrase
from iolab.plan.types import PLAN_SCHEMA
from iolab.results.encoding import Malformed
from iolab.store.records import PLAN
from iolab.store.upgrade.steps import (
    ANYTHING,
    INTEGER,
    TEXT,
    Json,
    Step,
    Steps,
    by_name,
    many,
    part,
    quoted,
    stated,
    upgraded,
    version_of,
)

_UNSUPPORTED = core_schema.tuple_schema([TEXT, by_name(TEXT), ANYTHING])
_PLAN = SchemaValidator(part({"schema": INTEGER, "unsupported": many(_UNSUPPORTED)}))
"""What the steps look at: the newest schema checks the rest."""


def from_1(plan: Json) -> Json:
    """Return a plan of schema 1 as schema 2 has it: what CPUs and NUMA nodes its hosts have was not a part of it."""
    return {**plan, "schema": 2, "computers": {}}


def from_2(plan: Json) -> Json:
    """Return a plan of schema 2 as schema 3 has it: what cells lack was in words."""
    lacking = [[measure, cell, quoted(reason)] for measure, cell, reason in plan["unsupported"]]
    return {**plan, "schema": 3, "unsupported": lacking}


def from_3(plan: Json) -> Json:
    """Return a plan of schema 3 as schema 4 has it: some codes of what cells lack are no more."""
    return {**plan, "schema": 4, "unsupported": stated(plan["unsupported"])}


def plan_text(data: bytes) -> str:
    """Return the text of a plan of any schema as the newest has it; a newer one, or what is none, as it is.

    Raises:
        StoreError: it is damaged; the message says which key is wrong.
        ValueError: it is no text.
    """
    try:
        version = version_of(data)
    except Malformed:
        return data.decode()
    if version not in PLAN_STEPS:
        return data.decode()
    try:
        return upgraded(data, version, PLAN_STEPS, PLAN_SCHEMA, PLAN).decode()
    except Malformed as error:
        raise StoreError(Phrase("store.not-what-iolab-wrote", file=PLAN, seen=error)) from None


PLAN_STEPS: Steps = {
    number: Step(_PLAN, step) for number, step in enumerate((from_1, from_2, from_3), start=1)
}
