"""The history of a context as a notebook."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Union


class Notebook:
    """Everything that was run in a context, as a file for Jupyter (nbformat 4.5)."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def cells(self) -> Any:
        return self.to_dict()["cells"]

    def to_dict(self) -> Dict[str, Any]:
        """The notebook as data."""
        read: Dict[str, Any] = json.loads(self.text)
        return read

    def save(self, path: Union[str, os.PathLike[str]]) -> Path:
        """Writes the notebook, and returns where."""
        target = Path(path)
        target.write_text(self.text, encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return f"Notebook({len(self.cells)} cells)"
