"""The parts of `conformance/run`: only the standard library, so that it runs on a fresh machine."""
