'use strict';

// Starting, ending, and what goes on between cells.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { test } = require('node:test');

const { KernelClient } = require('./kernel_client');

async function withKernel(use, options) {
  const kernel = await KernelClient.start(options);
  try {
    return await use(kernel);
  } finally {
    await kernel.close();
  }
}

for (const [code, status] of [
  ['process.exit(3)', { code: 3, signal: null }],
  ['process.exit()', { code: 0, signal: null }],
  ['await null; process.exit(4)', { code: 4, signal: null }],
  ['setTimeout(() => process.exit(5), 5); await new Promise(() => {})', { code: 5, signal: null }],
  ['process.kill(process.pid, "SIGKILL")', { code: null, signal: 'SIGKILL' }],
  ['process.abort()', { code: null, signal: 'SIGABRT' }],
]) {
  test(`what was printed before ${code} is heard, and then the end`, async () => {
    await withKernel(async (kernel) => {
      kernel.start(`for (let n = 0; n < 100; n++) console.log(n); ${code}`);
      const outcome = await kernel.waitForText('99\n');
      assert.equal(outcome.text(), Array.from({ length: 100 }, (_, n) => `${n}\n`).join(''));
      assert.deepEqual(await kernel.exited, status);
    });
  });
}

test('exit handlers run and are heard', async () => {
  await withKernel(async (kernel) => {
    kernel.start('process.on("exit", (code) => console.log("bye", code)); process.exit(6)');
    await kernel.waitForText('bye 6\n');
    assert.equal((await kernel.exited).code, 6);
  });
});

test('shutdown is answered, then the process ends', async () => {
  await withKernel(async (kernel) => {
    assert.equal((await kernel.ask({ type: 'shutdown' })).status, 'ok');
    assert.deepEqual(await kernel.exited, { code: 0, signal: null });
  });
});

for (const [what, code] of [['an idle kernel', '1'], ['a kernel with timers', 'setInterval(() => {}, 1000); 1']]) {
  test(`${what} ends when its peer is gone`, async () => {
    await withKernel(async (kernel) => {
      await kernel.run(code);
      kernel.socket.destroy();
      assert.deepEqual(await kernel.exited, { code: 0, signal: null });
    });
  });
}

test('a kernel that prints to nobody ends', async () => {
  await withKernel(async (kernel) => {
    kernel.start('for (;;) console.log("x".repeat(1000))');
    await kernel.waitForText('x');
    kernel.socket.destroy();
    assert.equal((await kernel.exited).code, 76);
  });
});

test('a kernel that loops for nobody ends', async () => {
  await withKernel(async (kernel) => {
    kernel.start('console.log("go"); for (;;);');
    await kernel.waitForText('go');
    kernel.socket.destroy();
    assert.equal((await kernel.exited).signal, 'SIGKILL');
  });
});

test('a request in pieces is read whole', async () => {
  await withKernel(async (kernel) => {
    const body = Buffer.from(JSON.stringify({ type: 'execute', id: 'slow', code: '"é" + 1' }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    for (const byte of Buffer.concat([length, body])) {
      kernel.socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await kernel.finish()).value['text/plain'], "'é1'");
  });
});

test('tasks go on between cells, and their output belongs to none', async () => {
  await withKernel(async (kernel) => {
    await kernel.run('let ticks = 0; const timer = setInterval(() => console.log("tick", ++ticks), 10)');
    for (;;) {
      const message = await kernel.receive();
      if (message.type !== 'stream') continue;
      assert.equal(message.parent, null);
      if (message.text === 'tick 3\n') break;
    }
    const outcome = await kernel.run('await new Promise((resolve) => setTimeout(resolve, 60)); clearInterval(timer)');
    const busy = outcome.findIndex(({ state }) => state === 'busy');
    const ticks = Array.from(outcome).slice(busy).filter(({ type }) => type === 'stream');
    assert.ok(ticks.length > 0 && ticks.every(({ parent }) => parent === outcome[busy].parent));
  });
});

test('a server in a cell answers while later cells run', async () => {
  await withKernel(async (kernel) => {
    await kernel.run("const server = require('http').createServer((_, response) => response.end('served')).listen(0, '127.0.0.1'); await require('events').once(server, 'listening')");
    assert.equal(await kernel.value('await (await fetch(`http://127.0.0.1:${server.address().port}`)).text()'), "'served'");
  });
});

test('an idle kernel uses no processor', async () => {
  await withKernel(async (kernel) => {
    await kernel.run('1');
    const used = () => fs.readFileSync(`/proc/${kernel.pid}/stat`, 'latin1').split(') ')[1].split(' ').slice(11, 13).map(Number).reduce((a, b) => a + b);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const before = used();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    assert.ok(used() - before <= 2, String(used() - before));
  });
});

test('nothing of the kernel stays on the disk', async () => {
  await withKernel(async (kernel) => {
    for (const descriptor of [1, 2]) {
      const pipe = await kernel.value(`require("fs").readlinkSync("/proc/self/fd/${descriptor}")`);
      // A pipe that never had a name, or one whose name and folder are gone.
      assert.match(pipe, /^'(pipe:\[\d+\]|.*\/skep-\w+\/\d \(deleted\))'$/);
      assert.equal(fs.existsSync(pipe.slice(1, pipe.lastIndexOf('/'))), false);
    }
  });
});

test('what keeps a kernel from starting is told where its caller looks', async () => {
  const kernel = new KernelClient({ language: 'javascript', env: { NODE_OPTIONS: '--require=/nonexistent.js' } });
  assert.notEqual((await kernel.exited).code, 0);
  assert.match(kernel.lastWords, /Cannot find module '\/nonexistent\.js'/);
});
