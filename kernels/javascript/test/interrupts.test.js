'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;

before(async () => {
  kernel = await KernelClient.start();
  await kernel.run('let kept = "kept"');
});
after(() => kernel.close());

async function interrupted(outcome) {
  assert.deepEqual([outcome.error?.kind, outcome.error?.ename, outcome.error?.evalue], ['interrupted', 'KeyboardInterrupt', ''], JSON.stringify(outcome));
  assert.equal(outcome.reply.status, 'error');
  assert.equal(outcome.ofType('error').length, 1);
  assert.equal(await kernel.value('kept'), "'kept'");
}

for (const [what, code] of [
  ['an endless loop', 'for (;;);'],
  ['an endless loop that catches everything', 'for (;;) { try { for (;;); } catch {} finally { continue } }'],
  ['an endless loop after an await', 'await null; for (;;);'],
  ['a loop of awaits', 'for (;;) await null;'],
  ['an endless wait', 'await new Promise(() => {})'],
  ['a promise as the value', 'new Promise(() => {})'],
  ['a long timer', 'await new Promise((resolve) => setTimeout(resolve, 1e6))'],
  ['a callback', 'setTimeout(() => { for (;;); }, 1); await new Promise(() => {})'],
  ['a tick', 'process.nextTick(() => { for (;;); }); await new Promise(() => {})'],
  ['a blocked thread', 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)'],
  ['a regular expression', '/(a+)+$/.test("a".repeat(40) + "b")'],
  ['a sort', 'for (;;) [3, 1, 2].sort(() => { for (;;); })'],
  ['a generator', 'function* g() { for (;;) yield 1 } for (const x of g());'],
  ['a flood of output', 'for (;;) console.log("x".repeat(1000))'],
  ['a value that shows itself for ever', '({ [require("util").inspect.custom]() { for (;;); } })'],
  ['a held cell', '$$.async()'],
]) {
  test(`${what} is interrupted`, async () => {
    kernel.start(`console.log("go"); ${code}`);
    await kernel.waitForText('go');
    await new Promise((resolve) => setTimeout(resolve, 30));
    kernel.interrupt();
    await interrupted(await kernel.finish());
  });
}

test('a child and the cell that waits for it are interrupted', async () => {
  kernel.start('console.log("go"); require("child_process").execSync("sleep 1000"); for (;;);');
  await kernel.waitForText('go');
  await new Promise((resolve) => setTimeout(resolve, 100));
  // As a terminal does: everybody in the process group.
  process.kill(-kernel.pid, 'SIGINT');
  const outcome = await kernel.finish();
  assert.equal(outcome.reply.status, 'error');
  assert.equal(await kernel.value('kept'), "'kept'");
});

test('an interrupt while nothing runs is ignored', async () => {
  for (let n = 0; n < 5; n++) {
    kernel.interrupt();
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
  assert.equal(await kernel.value('kept'), "'kept'");
});

test('a callback that blocks the kernel after its cell is ended', async () => {
  await kernel.run('setTimeout(() => { console.log("blocked"); for (;;); }, 1)');
  await kernel.waitForText('blocked');
  const id = kernel.start('kept');
  await new Promise((resolve) => setTimeout(resolve, 50));
  kernel.interrupt();
  const outcome = await kernel.finish();
  assert.equal(outcome[0].parent, id);
  assert.equal(outcome.ok().value['text/plain'], "'kept'");
});

test('an interrupt ends the wait for a slow reader, and nothing that was accepted is lost', async () => {
  kernel.start('let printed = 0; for (;;) { console.log(String(printed).padStart(999)); printed++ }');
  await kernel.waitForText('\n');
  kernel.socket.pause();
  await new Promise((resolve) => setTimeout(resolve, 200));
  kernel.interrupt();
  await new Promise((resolve) => setTimeout(resolve, 100));
  kernel.socket.resume();
  const outcome = await kernel.finish();
  await interrupted(outcome);
  const numbers = outcome.text().trim().split(/\s+/).map(Number);
  numbers.forEach((number, index) => assert.equal(number, numbers[0] + index));
  const printed = Number(await kernel.value('printed'));
  assert.ok(printed - numbers.at(-1) <= 2, `${printed} ${numbers.at(-1)}`);
});

test('timers of the user survive an interrupt', async () => {
  await kernel.run('let ticks = 0; const ticking = setInterval(() => ticks++, 2)');
  kernel.start('console.log("go"); for (;;);');
  await kernel.waitForText('go');
  kernel.interrupt();
  await interrupted(await kernel.finish());
  const before = Number(await kernel.value('ticks'));
  await kernel.run('await new Promise((resolve) => setTimeout(resolve, 100))');
  assert.ok(Number(await kernel.value('clearInterval(ticking); ticks')) > before);
});

test('many interrupts at any time leave a kernel that works', async () => {
  for (let round = 0; round < 40; round++) {
    kernel.start('let n = 0; for (const until = Date.now() + 20; Date.now() < until; n++); console.log(n); await null; ({ n })');
    await new Promise((resolve) => setTimeout(resolve, (round * 7) % 45));
    kernel.interrupt();
    if (round % 3 === 0) kernel.interrupt();
    const outcome = await kernel.finish();
    assert.equal(outcome.ofType('reply').length, 1);
    assert.ok(outcome.error === undefined || outcome.error.kind === 'interrupted', JSON.stringify(outcome));
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(await kernel.value('kept'), "'kept'");
});

test('a storm of interrupts does not kill the kernel', async () => {
  kernel.start('console.log("go"); await new Promise(() => {})');
  await kernel.waitForText('go');
  for (let n = 0; n < 50; n++) kernel.interrupt();
  await interrupted(await kernel.finish());
  for (let n = 0; n < 50; n++) {
    kernel.interrupt();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(await kernel.value('kept'), "'kept'");
});

test('a cell with domains, or with a callback for failures, is interrupted too', async () => {
  await kernel.run("require('domain'); 1");
  for (let round = 0; round < 3; round++) {
    kernel.start('console.log("go"); for (;;);');
    await kernel.waitForText('go');
    kernel.interrupt();
    await interrupted(await kernel.finish());
  }
});

test('variables of an execution are restored after an interrupt', async () => {
  kernel.start('console.log("go"); for (;;);', { env: { CELL_TEST: 'during' } });
  await kernel.waitForText('go');
  kernel.interrupt();
  await interrupted(await kernel.finish());
  assert.equal(await kernel.value('typeof process.env.CELL_TEST'), "'undefined'");
});
