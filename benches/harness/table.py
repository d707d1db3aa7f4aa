"""Print Markdown tables row by row, and figures with their limits."""


class Table:
    """A table whose heads are printed immediately. A head that begins with < marks a text column."""

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
    """Print a figure with its limit; return whether it is within the limit."""
    print(f"{name:34} {said:84} {'holds' if held else 'MISSED'}", flush=True)
    return held
