"""What a sandbox uses."""

import datetime

import pytest

from flavour import eventually

pytestmark = pytest.mark.feature("sandbox.metrics")


async def first_metrics(sdk, sandbox):
    async def some():
        return await sdk.call(sandbox.get_metrics)

    return await eventually(some, "the first measurement", 20)


async def test_a_measurement_appears_and_every_number_in_it_is_plausible(sdk, sandbox):
    await sdk.call(sandbox.commands.run, "timeout 1 sh -c 'while :; do :; done' || true")
    newest = (await first_metrics(sdk, sandbox))[-1]
    assert newest.cpu_count > 0
    assert newest.cpu_used_pct >= 0
    assert 0 < newest.mem_used <= newest.mem_total
    assert 0 < newest.disk_used <= newest.disk_total
    assert abs((datetime.datetime.now(datetime.timezone.utc) - newest.timestamp).total_seconds()) < 30


async def test_metrics_by_id_and_by_instance_agree(sdk, sandbox):
    await first_metrics(sdk, sandbox)
    by_id = await sdk.call(sdk.Sandbox.get_metrics, sandbox.sandbox_id)
    assert by_id[0].timestamp == (await sdk.call(sandbox.get_metrics))[0].timestamp


async def test_a_range_before_the_sandbox_existed_is_empty(sdk, sandbox):
    start = (await sdk.call(sandbox.get_info)).started_at
    before = await sdk.call(
        sandbox.get_metrics,
        start=start - datetime.timedelta(hours=2),
        end=start - datetime.timedelta(hours=1),
    )
    assert before == []


async def test_measurements_lie_in_the_asked_range_and_ascend(sdk, sandbox):
    await first_metrics(sdk, sandbox)
    start = (await sdk.call(sandbox.get_info)).started_at
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
    stamps = [metric.timestamp for metric in await sdk.call(sandbox.get_metrics, start=start, end=end)]
    assert stamps and stamps == sorted(stamps)
    slack = datetime.timedelta(seconds=10)
    assert start - slack <= stamps[0] and stamps[-1] <= end + slack
