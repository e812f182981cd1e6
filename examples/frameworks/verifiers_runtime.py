"""The runtime of verifiers, in which it rolls out tasks: a sandbox made of a container image.

    pip install 'verifiers[e2b]'
"""

import asyncio

from verifiers.v1.runtimes.e2b import E2BConfig, E2BRuntime


async def main():
    runtime = E2BRuntime(E2BConfig(image="python:3.12-slim"))
    await runtime.start()
    try:
        print("result:", await runtime.run(["python3", "-c", "print(6 * 7)"], {}))
    finally:
        await runtime.stop()


asyncio.run(main())
