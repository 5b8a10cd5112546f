"""Shows results of a program that runs in silk: pictures, tables, JSON, HTML.

    import silk
    silk.show(figure)               # of matplotlib, or pyplot itself: its current one
    silk.show(frame)                # a DataFrame or Series of pandas: a table
    silk.show({"a": 1})             # JSON
    silk.show(html, "text/html")    # what text is must be said
    result = silk.show("0 %")
    result.update("100 %")          # in its place

Each result is a file in /workspace/.silk/display, and results stand in the order in which they were shown first. What is there
at the end of the program counts, so that a result which is updated a thousand times is one. See docs/howto/results.md of silk.
"""

import json
import os
import sys

_FOLDER = "/workspace/.silk/display"
_MOST = 64  # results that silk takes
_ROWS, _COLUMNS = 1000, 64
_ENDINGS = {
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "text/html": ".html",
    "application/json": ".json",
    "application/vnd.silk.table+json": ".table.json",
    "text/plain": ".txt",
}


class Result:
    """One result. It keeps its place whatever it is updated with."""

    def __init__(self, number):
        self._number = number
        self._path = None

    def update(self, value, mime=None):
        """Shows something else in place of this result."""
        if self._number is None:
            return self
        mime, write = _form(value, mime)
        path = os.path.join(_FOLDER, f"{self._number:04d}{_ENDINGS[mime]}")
        part = os.path.join(_FOLDER, f".{self._number:04d}-{os.getpid()}")
        write(part)
        os.replace(part, path)
        if self._path not in (None, path):
            os.unlink(self._path)
        self._path = path
        return self


def show(value, mime=None):
    """Shows a value, and returns the Result, whose update shows another one in its place."""
    return Result(_claim()).update(value, mime)


_claimed = 0


def _claim():
    """The next number that no other process of the program has, or None: there are enough."""
    global _claimed
    os.makedirs(_FOLDER, exist_ok=True)
    while _claimed < _MOST:
        _claimed += 1
        try:
            os.mkdir(os.path.join(_FOLDER, f".{_claimed:04d}"))
            return _claimed
        except FileExistsError:
            pass
    if _claimed == _MOST:
        _claimed += 1
        print(f"silk: only {_MOST} results are shown", file=sys.stderr)
    return None


def _form(value, mime):
    """What a value is shown as, and how its file is written."""
    if mime is not None and mime not in _ENDINGS:
        raise ValueError(f"silk shows no {mime}; it shows {', '.join(_ENDINGS)}")
    if mime == "application/json" and not isinstance(value, (str, bytes)):
        return mime, _text(json.dumps(value))
    if isinstance(value, (bytes, bytearray)):
        if mime is None:
            mime = "image/png" if value[:8] == b"\x89PNG\r\n\x1a\n" else "text/plain"
        return mime, _bytes(bytes(value) if mime == "image/png" else bytes(value).decode(errors="replace").encode())
    if isinstance(value, str):
        return mime or "text/plain", _text(value)
    if mime not in (None, "image/png", "image/svg+xml", "application/vnd.silk.table+json"):
        return mime, _text(str(value))
    if getattr(value, "__name__", "") == "matplotlib.pyplot":
        value = value.gcf()
    if hasattr(value, "savefig"):
        kind = "svg" if mime == "image/svg+xml" else "png"
        return mime or "image/png", lambda path: value.savefig(path, format=kind)
    table = _table(value)
    if table is not None:
        return "application/vnd.silk.table+json", _text(json.dumps(table))
    if hasattr(value, "save") and hasattr(value, "convert"):  # an image of PIL
        return "image/png", lambda path: value.save(path, format="PNG")
    for name, kind in ("_repr_png_", "image/png"), ("_repr_svg_", "image/svg+xml"), ("_repr_html_", "text/html"):
        made = getattr(value, name, None)
        made = made() if callable(made) else None
        if made is not None and mime in (None, kind):
            return kind, _bytes(made if isinstance(made, bytes) else str(made).encode())
    if isinstance(value, (dict, list, tuple, int, float, bool, type(None))):
        try:
            return "application/json", _text(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError):
            pass  # something in it is no JSON
    return "text/plain", _text(repr(value))


def _table(value):
    """A frame or series of pandas, or a list of dicts, as a table."""
    if hasattr(value, "to_frame") and not hasattr(value, "columns"):
        value = value.to_frame()
    if hasattr(value, "columns") and hasattr(value, "itertuples"):
        names = [*(str(n) if n is not None else "" for n in value.index.names), *map(str, value.columns)]
        rows = [_row(row, len(value.index.names)) for row in value.head(_ROWS).itertuples(name=None)]
        total = len(value)
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        names = [*dict.fromkeys(str(key) for row in value for key in row)]
        rows = [[_cell(row.get(name)) for name in names] for row in value[:_ROWS]]
        total = len(value)
    else:
        return None
    return {"columns": names[:_COLUMNS], "rows": [row[:_COLUMNS] for row in rows], "total": total} if names else None


def _row(row, levels):
    index = row[0] if levels > 1 else row[:1]
    return [_cell(cell) for cell in (*index, *row[1:])]


def _cell(value):
    if value is None or isinstance(value, (bool, str, int)):
        return value
    try:
        if value != value:  # not a number, not a time
            return None
    except (TypeError, ValueError):  # what is missing in pandas, an array
        return None if str(value) == "<NA>" else str(value)
    if isinstance(value, float):
        return value if abs(value) != float("inf") else str(value)
    if hasattr(value, "item"):  # a number of numpy
        try:
            return _cell(value.item())
        except (TypeError, ValueError):
            pass
    return str(value)


def _text(text):
    return _bytes(text.encode("utf-8", "replace"))


def _bytes(data):
    def write(path):
        with open(path, "wb") as file:
            file.write(data)

    return write
