"""What this package raises beside the official SDK's own exceptions."""

from __future__ import annotations

from e2b import SandboxException


class NotSkepError(SandboxException):
    """The server is not Skep, so it would have ignored what was asked of it."""

    def __init__(self, wanted: str, server: str) -> None:
        super().__init__(
            f"{wanted} needs a Skep server, and {server} is none: leave it out there, or set E2B_DOMAIN (or E2B_API_URL) to a server that has it"
        )


class LocalServerError(SandboxException):
    """No server of this host could be used, and none could be started."""
