"""A bash that lives as long as its context, behind one Unix socket. See ../README.md."""

PROTOCOL_VERSION = 1

__version__ = "0.1.0"
