"""What the contract wants of Pillow: an image that is shown or saved is displayed.

`Image.show()` displays instead of looking for a viewer. `Image.save("name")` displays and then saves,
if the target is given as a str; matplotlib's `savefig("name.png")` saves through Pillow and so does too.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from .import_hooks import after_import


def install_image_rules() -> None:
    """Patch Pillow, now or when the user imports it."""
    after_import("PIL.Image", _patch)


def _patch(module: ModuleType) -> None:
    from IPython.display import display

    image_class: Any = module.Image
    save = image_class.save
    if getattr(save, "displays_first", False):
        return

    @functools.wraps(save)
    def display_and_save(self: Any, fp: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(fp, str):
            display(self)
        return save(self, fp, *arguments, **options)

    @functools.wraps(image_class.show)
    def show(self: Any, *_arguments: Any, **_options: Any) -> None:
        display(self)

    display_and_save.displays_first = True  # type: ignore[attr-defined]
    image_class.save = display_and_save
    image_class.show = show
