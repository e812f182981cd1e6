"""What the cases of template builds share."""

import uuid

import e2b
import pytest

import web


@pytest.fixture
def builder(sdk):
    return e2b.Template if sdk.name == "sync" else e2b.AsyncTemplate


@pytest.fixture
def name():
    """A name that is free, and is free again afterwards."""
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    yield name
    web.api("DELETE", f"/templates/{name}", None)


def blank(builder, context=None, **options):
    return builder(file_context_path=str(context), **options) if context else builder(**options)


async def build(sdk, builder, template, name, **options):
    """Builds, and returns what was logged."""
    lines = []
    await sdk.call(builder.build, template, alias=name, on_build_logs=lambda line: lines.append(line.message), **options)
    return lines


async def refusal(sdk, builder, template, name):
    """What a build fails with."""
    error = await sdk.error(builder.build, template, alias=name)
    assert type(error).__name__ == "BuildException", repr(error)
    return error


async def output(sdk, template, command, **options):
    """What a command prints in a new sandbox of a template."""
    sandbox = await sdk.call(sdk.Sandbox.create, template, timeout=60)
    try:
        return (await sdk.call(sandbox.commands.run, command, **options)).stdout
    finally:
        await sdk.call(sandbox.kill)
