'use strict';

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;

before(async () => {
  kernel = await KernelClient.start({ env: { CELL_PROCESS: 'process' } });
});
after(() => kernel.close());

const read = (options) => kernel.value('process.env.CELL_TEST ?? "absent"', options);
const setLayer = async (layer, variables) => assert.equal((await kernel.ask({ type: 'environment', layer, variables })).status, 'ok');

test('layers override each other and are restored', async () => {
  assert.equal(await read(), "'absent'");
  await setLayer('sandbox', { CELL_TEST: 'sandbox' });
  assert.equal(await read(), "'sandbox'");
  await setLayer('context', { CELL_TEST: 'context' });
  assert.equal(await read(), "'context'");
  assert.equal(await read({ env: { CELL_TEST: 'execution' } }), "'execution'");
  assert.equal(await read(), "'context'");
  await setLayer('context', {});
  assert.equal(await read(), "'sandbox'");
  await setLayer('sandbox', {});
  assert.equal(await read(), "'absent'");
});

test('a layer gives back what the process had', async () => {
  await setLayer('sandbox', { CELL_PROCESS: 'layer' });
  assert.equal(await kernel.value('process.env.CELL_PROCESS'), "'layer'");
  await setLayer('sandbox', {});
  assert.equal(await kernel.value('process.env.CELL_PROCESS'), "'process'");
});

test('a layer leaves alone what user code assigned', async () => {
  await setLayer('sandbox', { CELL_A: '1', CELL_B: '2' });
  await kernel.run('process.env.CELL_A = "own"');
  await setLayer('sandbox', { CELL_A: '1', CELL_B: '3' });
  assert.equal(await kernel.value('process.env.CELL_A + process.env.CELL_B'), "'own3'");
  await setLayer('sandbox', {});
});

for (const [what, value] of Object.entries({ empty: '', quotes: '\'"\\`', newline: 'line\nline', unicode: '😀 漢字', shell: '$HOME `id` ${x}', separators: '\u2028\ue000', large: 'x'.repeat(1 << 20) })) {
  test(`any value arrives unchanged: ${what}`, async () => {
    const hash = `'${createHash('sha256').update(value).digest('hex')}'`;
    const code = 'require("crypto").createHash("sha256").update(process.env.CELL_TEST).digest("hex")';
    assert.equal(await kernel.value(code, { env: { CELL_TEST: value } }), hash);
    await setLayer('context', { CELL_TEST: value });
    assert.equal(await kernel.value(code), hash);
    await setLayer('context', {});
  });
}

test('random environments arrive unchanged and leave nothing behind', async () => {
  const before = await kernel.value('JSON.stringify(Object.entries(process.env).sort())');
  for (let round = 0; round < 30; round++) {
    const env = {};
    for (let n = 0; n <= round % 5; n++) {
      const units = Array.from({ length: (round * 7 + n) % 40 }, (_, index) => 1 + ((round * 7919 + n * 104729 + index * 1299709) % 0xd7ff));
      env[`CELL_${n}_${'é='.repeat(round % 2).replaceAll('=', '')}`] = String.fromCharCode(...units);
    }
    const { value } = (await kernel.run('Object.fromEntries(Object.entries(process.env).filter(([name]) => /^CELL_\\d/.test(name)))', { env })).ok();
    assert.deepEqual(value['application/json'], env);
  }
  assert.equal(await kernel.value('JSON.stringify(Object.entries(process.env).sort())'), before);
});

test('child processes see the variables of an execution', async () => {
  assert.equal(await kernel.value('require("child_process").execSync("echo $CELL_TEST").toString()', { env: { CELL_TEST: 'seen' } }), "'seen\\n'");
  assert.equal(await kernel.value('require("child_process").execSync("echo [$CELL_TEST]").toString()'), "'[]\\n'");
});

for (const ending of ['throw 1', '(', 'delete process.env.CELL_TEST', 'process.env.CELL_TEST = "changed"', 'await 1; throw 2']) {
  test(`variables are restored after ${ending}`, async () => {
    await setLayer('sandbox', { CELL_TEST: 'before' });
    await kernel.run(ending, { env: { CELL_TEST: 'during', CELL_OTHER: 'x' } });
    assert.equal(await read(), "'before'");
    assert.equal(await kernel.value('"CELL_OTHER" in process.env'), 'false');
    await setLayer('sandbox', {});
  });
}

test('line numbers do not shift with an environment', async () => {
  const { error } = await kernel.run('null.x', { env: { A: '1\n2' } });
  assert.match(error.traceback[0], /cell-\d+\.js:1:6/);
  assert.equal(await kernel.value('(1)', { env: { A: '1' } }), '1');
});

for (const variables of [{ 'A=B': '1' }, { '': '1' }, { A: 'x\0y' }, { A: 5 }, { A: '\ud800' }, [], 'x', null]) {
  test(`what no environment can hold is refused: ${JSON.stringify(variables)}`, async () => {
    const reply = await kernel.ask({ type: 'environment', layer: 'sandbox', variables });
    assert.deepEqual([reply.status, reply.ename], ['error', 'InvalidEnvironment']);
    if (variables === null) return;
    const outcome = await kernel.run('console.log("must not run")', { env: variables });
    assert.deepEqual([outcome.error.kind, outcome.error.ename, outcome.text()], ['request', 'InvalidEnvironment', '']);
  });
}

test('the directory is changed, or the failure named', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skep é-'));
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, '');
  const before = await kernel.value('process.cwd()');
  for (const [to, ename] of [[path.join(folder, 'nowhere'), 'FileNotFoundError'], [file, 'NotADirectoryError'], [5, 'ValueError']]) {
    const reply = await kernel.ask({ type: 'chdir', path: to });
    assert.deepEqual([reply.status, reply.ename], ['error', ename]);
    assert.equal(await kernel.value('process.cwd()'), before);
  }
  assert.equal((await kernel.ask({ type: 'chdir', path: folder })).status, 'ok');
  assert.equal(await kernel.value('require("child_process").execSync("pwd").toString().trim()'), `'${folder}'`);
  await kernel.ask({ type: 'chdir', path: '/tmp' });
  fs.rmSync(folder, { recursive: true });
});

test('requests that make no sense are refused, and the next is served', async () => {
  for (const request of [{ type: 'dance' }, { type: 'execute' }, { type: 'execute', code: 5 }, { type: 'environment', layer: 'moon', variables: {} }]) {
    assert.equal((await kernel.ask(request)).status, 'error', JSON.stringify(request));
  }
  assert.equal(await kernel.value('1'), '1');
});

test('several requests at once are served in order', async () => {
  const ids = ['order1 = 1', 'await null; order1 + 1', 'order1 + 2'].map((code) => kernel.start(code));
  for (const id of ids) assert.equal((await kernel.finish())[0].parent, id);
});
