"""Which of the two supported generations of the SDK is installed here."""

import importlib.metadata

VERSION = importlib.metadata.version("e2b")
YEAR = VERSION == "2.7.0"
NEW = not YEAR


def by_generation(new, year):
    """Picks what this generation of the SDK is expected to show."""
    return year if YEAR else new


def expect_error(error, new, says, year=None):
    """Checks the class a user would catch and the words a user would read."""
    wanted = by_generation(new, year or new)
    seen = type(error).__name__
    assert seen == wanted, f"expected {wanted}, got {seen}: {error}"
    for words in [says] if isinstance(says, str) else says:
        assert words in str(error), f"expected {words!r} in the text of {seen}: {error}"
