"""Tables in Markdown, printed row by row, and figures beside their bounds."""


class Table:
    """A table whose heads are printed at once. A head that begins with < is that of a column of text."""

    def __init__(self, *heads: str, least: int = 0) -> None:
        self._left = [head.startswith("<") for head in heads]
        names = [head.lstrip("<") for head in heads]
        self._widths = [max(len(name), least) for name in names]
        self.row(*names)
        lines = (
            "-" * (width + 1) + ("-" if left else ":")
            for width, left in zip(self._widths, self._left, strict=True)
        )
        print(f"|{'|'.join(lines)}|", flush=True)

    def row(self, *cells: object) -> None:
        """Print a row."""
        padded = (
            f"{cell:<{width}}" if left else f"{cell:>{width}}"
            for cell, width, left in zip(map(str, cells), self._widths, self._left, strict=True)
        )
        print(f"| {' | '.join(padded)} |", flush=True)


def verdict(name: str, said: str, *, held: bool) -> bool:
    """Print a figure with its bound, and give back whether the bound held."""
    print(f"{name:34} {said:84} {'holds' if held else 'MISSED'}", flush=True)
    return held
