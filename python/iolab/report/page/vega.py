"""Vega, Vega-Lite and Vega-Embed as one script, which takes seconds to put together: it is kept in the user's cache."""

import contextlib
import hashlib
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.files import cache_folder, write_whole

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""What the bundle leaves for the page's script."""


@cache
def library() -> str:
    """Return the script; nothing in it ends a script element."""
    made = None
    with contextlib.suppress(
        UnsupportedError, OSError
    ):  # without a cache that can be trusted it takes longer
        kept = _kept()
        if kept.is_file():
            return kept.read_text(encoding="utf-8")
        made = _made()
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, made)
    return made or _made()


def _kept() -> Path:
    """Return where this version's script is kept: another version, snippet or notice makes another name."""
    told = f"{version('vl-convert-python')}\n{_SNIPPET}\n{_notice()}"
    return cache_folder() / f"vega-{hashlib.sha256(told.encode()).hexdigest()[:16]}.js"


def _made() -> str:
    import vl_convert

    script = str(vl_convert.javascript_bundle(snippet=_SNIPPET)).replace("</script", "<\\/script")
    return _notice() + script


def _notice() -> str:
    """Return whose the script is, as its licences ask for: the bundle has lost every notice."""
    return f"/*!\n{(files('iolab.report.page') / 'licences.txt').read_text(encoding='utf-8')}*/\n"
