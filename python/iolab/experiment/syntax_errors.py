"""Where a text is no YAML, and what to do about it."""

from contextlib import suppress

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.tokens import ScalarToken

from iolab.experiment.problems import Problems


def note_syntax(error: YAMLError, text: str, problems: Problems) -> None:
    """Note what keeps a text from being read as YAML, at its line, with advice."""
    if not isinstance(error, MarkedYAMLError):
        problems.add(1, "reading YAML", str(error).splitlines()[0][:200], "YAML 1.2")
        return
    said = " ".join(str(part) for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    opened = _quote_opened(error, text, line)
    line = opened or line
    rows = text.splitlines()
    row = rows[line - 1] if line <= len(rows) else ""
    seen = row.strip()[:60] or "the end of the file"
    if opened:
        advice = "a quote that is opened in this line is not closed in it: close it"
    else:
        advice = "indent with spaces, not tabs" if "\t" in row else _syntax_advice(said)
    problems.add(line, f"reading YAML ({said[:160]})", seen, "YAML 1.2", advice)


def _quote_opened(error: MarkedYAMLError, text: str, line: int) -> int | None:
    """Return the line of the quote that is not closed before `line`, where that is why the text cannot be read."""
    ended = "unexpected end of stream" in str(error.problem) or "document separator" in str(error.problem)
    if "quoted scalar" in str(error.context) and ended and error.context_mark:
        return int(error.context_mark.line) + 1
    # The quote may have been closed by the one that was to open the next text.
    reader = YAML(typ="safe", pure=True)
    with suppress(YAMLError):
        for token in reader.scan(text):
            last = token.end_mark.line + 1
            if last > line:
                break
            if isinstance(token, ScalarToken) and token.style and token.style in "'\"" and last == line:
                first = int(token.start_mark.line) + 1
                if first < last:
                    return first
    return None


def _syntax_advice(said: str) -> str:
    if "mapping values are not allowed" in said:
        return "quote text that holds ': ', and check the indentation"
    if "could not find expected ':'" in said or "expected ',' or" in said:
        return "a bracket, a brace, a comma or a colon is missing before here"
    if "alias" in said or "anchor" in said:
        return "quote text that begins with * or &"
    return "check quotes, brackets and indentation"
