"""One face for the sync and the async SDK, so that each case is written once.

Every test is a coroutine. With the sync SDK each call runs in a thread of its own, so two calls
can be under way at the same time and a test's deadline holds although the call blocks.
"""

import asyncio
import inspect
import threading
import time

from package import SANDBOXES


async def in_thread(function, *arguments, **options):
    """Runs a blocking call in a daemon thread, so that a hanging one cannot keep the run alive."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def settle(value, error):
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def work():
        try:
            value, error = function(*arguments, **options), None
        except Exception as raised:
            value, error = None, raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True).start()
    return await answer


async def eventually(look, what, seconds=10.0):
    """Waits until `look` returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if seen:
            return seen
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s; last seen: {seen!r}"
        await asyncio.sleep(0.02)


async def failure(awaitable):
    """Waits for something that must raise, and returns what it raised."""
    try:
        value = await awaitable
    except Exception as raised:
        return raised
    raise AssertionError(f"expected an exception, got {value!r}")


class Flavour:
    """What both SDKs offer, in the same words."""

    name: str
    Sandbox: type

    async def call(self, function, *arguments, **options):
        """Calls a method of the SDK and returns its result."""
        raise NotImplementedError

    def begin(self, function, *arguments, **options):
        """Calls a method of the SDK without waiting; the result is a task."""
        return asyncio.ensure_future(self.call(function, *arguments, **options))

    async def error(self, function, *arguments, **options):
        """Calls a method of the SDK that must raise, and returns what it raised."""
        return await failure(self.call(function, *arguments, **options))

    async def every(self, paginator):
        """All items of a paginator."""
        items = []
        while paginator.has_next:
            items += await self.call(paginator.next_items)
        return items


class Sync(Flavour):
    name = "sync"
    Sandbox = SANDBOXES["sync"]

    async def call(self, function, *arguments, **options):
        return await in_thread(function, *arguments, **options)

    async def start(self, sandbox, command, on_stdout=None, on_stderr=None, **options):
        handle = await self.call(sandbox.commands.run, command, background=True, **options)
        return SyncBackground(self, handle, on_stdout, on_stderr)

    async def attach(self, sandbox, pid, on_stdout=None, on_stderr=None, **options):
        handle = await self.call(sandbox.commands.connect, pid, **options)
        return SyncBackground(self, handle, on_stdout, on_stderr)

    async def terminal(self, sandbox, size, **options):
        screen = Screen(self, sandbox)
        handle = await self.call(sandbox.pty.create, size, **options)
        return screen.follow(handle, self.begin(handle.wait, on_pty=screen.show))

    async def reattach(self, sandbox, pid, **options):
        screen = Screen(self, sandbox)
        handle = await self.call(sandbox.pty.connect, pid, **options)
        return screen.follow(handle, self.begin(handle.wait, on_pty=screen.show))

    async def watch(self, sandbox, path, **options):
        return PolledWatch(self, await self.call(sandbox.files.watch_dir, path, **options))

    async def stream_input(self, service, pid, chunks):
        await self.call(service.stream_input, pid, iter(chunks))

    async def chunks(self, stream):
        return await in_thread(lambda: list(stream))

    async def scoped(self, body, **options):
        def work():
            with self.Sandbox.create(**options) as sandbox:
                return sandbox, body(sandbox)

        return await in_thread(work)

    def iterable(self, chunks):
        return iter(chunks)


class Async(Flavour):
    name = "async"
    Sandbox = SANDBOXES["async"]

    async def call(self, function, *arguments, **options):
        value = function(*arguments, **options)
        return await value if inspect.isawaitable(value) else value

    async def start(self, sandbox, command, on_stdout=None, on_stderr=None, **options):
        handle = await sandbox.commands.run(
            command, background=True, on_stdout=on_stdout, on_stderr=on_stderr, **options
        )
        return AsyncBackground(self, handle)

    async def attach(self, sandbox, pid, on_stdout=None, on_stderr=None, **options):
        handle = await sandbox.commands.connect(pid, on_stdout=on_stdout, on_stderr=on_stderr, **options)
        return AsyncBackground(self, handle)

    async def terminal(self, sandbox, size, **options):
        screen = Screen(self, sandbox)
        handle = await sandbox.pty.create(size, screen.show, **options)
        return screen.follow(handle, asyncio.ensure_future(handle.wait()))

    async def reattach(self, sandbox, pid, **options):
        screen = Screen(self, sandbox)
        handle = await sandbox.pty.connect(pid, screen.show, **options)
        return screen.follow(handle, asyncio.ensure_future(handle.wait()))

    async def watch(self, sandbox, path, **options):
        watch = StreamedWatch(self)
        watch.handle = await sandbox.files.watch_dir(path, watch.note, on_exit=watch.ended, **options)
        return watch

    async def stream_input(self, service, pid, chunks):
        handle = service.stream_input(pid)
        for chunk in chunks:
            await handle.send(chunk)
        await handle.close()

    async def chunks(self, stream):
        return [chunk async for chunk in stream]

    async def scoped(self, body, **options):
        async with await self.Sandbox.create(**options) as sandbox:
            return sandbox, await body(sandbox)

    def iterable(self, chunks):
        async def each():
            for chunk in chunks:
                yield chunk

        return each()


class SyncBackground:
    """A background command of the sync SDK, whose callbacks are given when waiting."""

    def __init__(self, sdk, handle, on_stdout, on_stderr):
        self.sdk, self.handle, self.pid = sdk, handle, handle.pid
        self._callbacks = {"on_stdout": on_stdout, "on_stderr": on_stderr}

    async def wait(self):
        return await self.sdk.call(self.handle.wait, **self._callbacks)


class AsyncBackground:
    """A background command of the async SDK, whose callbacks were given at the start."""

    def __init__(self, sdk, handle):
        self.sdk, self.handle, self.pid = sdk, handle, handle.pid

    async def wait(self):
        return await self.handle.wait()


class Screen:
    """What a terminal has shown so far."""

    def __init__(self, sdk, sandbox):
        self.sdk, self.sandbox, self.shown = sdk, sandbox, b""
        self.handle = self.pid = self.end = None

    def show(self, data):
        self.shown += data

    def follow(self, handle, end):
        self.handle, self.pid, self.end = handle, handle.pid, end
        # A test that kills its sandbox may never ask how the terminal ended.
        end.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self

    async def type(self, text):
        await self.sdk.call(self.sandbox.pty.send_stdin, self.pid, text.encode())

    async def expect(self, text, seconds=10.0):
        await eventually(lambda: text.encode() in self.shown, f"{text!r} on the terminal showing {self.shown!r}", seconds)

    async def wait(self):
        return await self.end


class PolledWatch:
    """A watcher of the sync SDK: events are fetched."""

    def __init__(self, sdk, handle):
        self.sdk, self.handle, self.events = sdk, handle, []

    async def until(self, look, what, seconds=10.0):
        async def fetch():
            self.events += await self.sdk.call(self.handle.get_new_events)
            return look(self.events)

        await eventually(fetch, what, seconds)
        return self.events

    async def stop(self):
        await self.sdk.call(self.handle.stop)


class StreamedWatch:
    """A watcher of the async SDK: events arrive."""

    def __init__(self, sdk):
        self.sdk, self.handle, self.events, self.exits = sdk, None, [], []

    def note(self, event):
        self.events.append(event)

    def ended(self, error):
        self.exits.append(error)

    async def until(self, look, what, seconds=10.0):
        await eventually(lambda: look(self.events), what, seconds)
        return self.events

    async def stop(self):
        await self.handle.stop()


FLAVOURS = {"sync": Sync, "async": Async}
