'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;
let folder;

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skep-output-'));
  kernel = await KernelClient.start();
});
after(async () => {
  await kernel.close();
  fs.rmSync(folder, { recursive: true });
});

const streams = (outcome) => outcome.ofType('stream').map(({ name, text }) => `${name}: ${text}`);

test('every call of the console is a message, in order, on its stream', async () => {
  const outcome = await kernel.run('console.log("a"); console.error("b"); console.info("c %d", 5); console.warn({ d: 1 }); process.stdout.write("e"); process.stderr.write("f")');
  assert.deepEqual(streams(outcome.ok()), ['stdout: a\n', 'stderr: b\n', 'stdout: c 5\n', 'stderr: { d: 1 }\n', 'stdout: e', 'stderr: f']);
});

test('tables, groups, counts and traces work', async () => {
  const text = (await kernel.run('console.group("g"); console.log("in"); console.groupEnd(); console.table([{ a: 1 }]); console.count(); console.dir({ x: { y: {} } }, { depth: 0 })')).ok().text();
  assert.match(text, /^g\n {2}in\n┌/);
  assert.match(text, /default: 1\n\{ x: \[Object\] \}\n$/);
});

test('a line is there before the cell goes on', async () => {
  const flag = path.join(folder, 'line');
  kernel.start(`console.log("first"); while (!require("fs").existsSync(${JSON.stringify(flag)})); console.log("second")`);
  await kernel.waitForText('first\n');
  fs.writeFileSync(flag, '');
  assert.equal((await kernel.finish()).ok().text(), 'second\n');
});

test('child processes are heard, in order with the console', async () => {
  for (let round = 0; round < 10; round++) {
    const outcome = await kernel.run(`
      const { execSync, spawnSync } = require('child_process');
      console.log('before');
      execSync('echo child', { stdio: 'inherit' });
      console.log('between');
      spawnSync('sh', ['-c', 'echo spawned'], { stdio: ['ignore', 1, 2] });
      require('fs').writeSync(1, 'descriptor\\n');
      console.log('after');`);
    assert.equal(outcome.ok().text(), 'before\nchild\nbetween\nspawned\ndescriptor\nafter\n');
  }
  const failing = await kernel.run("require('child_process').execSync('echo oops >&2; exit 3')");
  assert.equal(failing.text('stderr'), 'oops\n');
  assert.match(failing.error.evalue, /Command failed/);
});

for (const [how, code] of [
  ['synchronously', (command) => `require('child_process').execSync(${command}, { stdio: 'inherit' })`],
  ['in the event loop', (command) => `await require('events').once(require('child_process').spawn('sh', ['-c', ${command}], { stdio: 'inherit' }), 'close')`],
]) {
  test(`a child is heard while the cell waits for it ${how}`, async () => {
    const flag = path.join(folder, how);
    kernel.start(code(JSON.stringify(`echo now; while ! test -e '${flag}'; do sleep 0.01; done; echo then`)));
    await kernel.waitForText('now\n');
    fs.writeFileSync(flag, '');
    assert.equal((await kernel.finish()).ok().text(), 'then\n');
  });
}

test('shells may write to /dev/stdout', async () => {
  const outcome = await kernel.run("require('child_process').execSync('echo out > /dev/stdout; echo err > /dev/stderr', { stdio: 'inherit' })");
  assert.deepEqual(streams(outcome.ok()).sort(), ['stderr: err\n', 'stdout: out\n']);
});

test('children do not get the socket', async () => {
  const outcome = await kernel.run("require('child_process').execSync('ls /proc/self/fd | wc -l; readlink /proc/self/fd/0', { stdio: 'inherit' })");
  const [count, input] = outcome.ok().text().split('\n');
  assert.ok(Number(count) <= 5, count);
  assert.equal(input, '/dev/null');
});

test('text of any kind arrives', async () => {
  for (const text of ['\u2028\u2029\u0085', '😀'.repeat(40000), '漢'.repeat(70000), '\u0000', '\ud83d']) {
    const outcome = await kernel.run(`process.stdout.write(${JSON.stringify(text)}); null`);
    assert.equal(outcome.ok().text(), text.toWellFormed());
    assert.ok(outcome.ofType('stream').every((message) => message.text.length <= 65536));
  }
});

test('bytes that are no text become replacement characters, and characters are put together', async () => {
  const outcome = await kernel.run('process.stdout.write(Buffer.from([0xf0, 0x9f])); process.stdout.write(Buffer.from([0x98, 0x80])); process.stdout.write(Buffer.from([0xff, 10])); process.stdout.write("aGk=", "base64")');
  assert.equal(outcome.ok().text(), '😀\ufffd\nhi');
  const child = await kernel.run(`require('child_process').execSync("printf '\\\\360\\\\237'; sleep 0.1; printf '\\\\230\\\\200\\\\377'", { stdio: 'inherit' })`);
  assert.equal(child.ok().text(), '😀\ufffd');
});

test('streams behave like streams', async () => {
  assert.equal(await kernel.value('await new Promise((resolve) => process.stdout.write("x", resolve)); process.stdout.end("y"); process.stdout.write("z")'), 'true');
  const outcome = await kernel.run("require('stream').Readable.from(['p', 'q']).pipe(process.stdout); await new Promise((resolve) => setTimeout(resolve, 20))");
  assert.equal(outcome.ok().text(), 'pq');
  assert.equal(await kernel.value('[process.stdout.fd, process.stderr.fd, process.stdout.isTTY, process.stdout.writable].join()'), "'1,2,,true'");
  const worker = await kernel.run("await require('events').once(new (require('worker_threads').Worker)('console.log(`from a thread`)', { eval: true }), 'exit'); await new Promise(setImmediate)");
  assert.equal(worker.ok().text(), 'from a thread\n');
});

test('much output arrives whole', async () => {
  const outcome = await kernel.run('for (let n = 0; n < 20000; n++) console.log(n)');
  assert.equal(outcome.ok().text(), Array.from({ length: 20000 }, (_, n) => `${n}\n`).join(''));
});

for (const [what, code] of [
  ['a cell', 'const mebibyte = "x".repeat(1 << 20); for (let n = 0; n < 100; n++) process.stdout.write(mebibyte); "done"'],
  ['a child', "require('child_process').execSync('head -c 104857600 /dev/zero | tr \"\\\\0\" x', { stdio: 'inherit' }); 'done'"],
]) {
  test(`a hundred mebibytes from ${what} wait for their reader, and need no memory`, async () => {
    const own = await KernelClient.start();
    try {
      await own.run('1');
      own.start(code);
      await own.waitForText('x');
      own.socket.pause();
      const before = own.memory('VmRSS');
      await new Promise((resolve) => setTimeout(resolve, 500));
      assert.ok(own.memory('VmRSS') - before < 40 * 1024);
      own.socket.resume();
      let length = 0;
      for (;;) {
        const message = await own.receive();
        if (message.type === 'stream') length += message.text.length;
        if (message.type === 'execute_result') assert.equal(message.data['text/plain'], "'done'");
        if (message.state === 'idle') break;
      }
      assert.ok(length > 99 << 20, String(length));
      assert.ok(own.memory() < 220 * 1024, `${own.memory()} KiB`);
    } finally {
      await own.close();
    }
  });
}
