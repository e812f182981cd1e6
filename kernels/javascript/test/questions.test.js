'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;
let typescript;

before(async () => {
  [kernel, typescript] = await Promise.all([KernelClient.start(), KernelClient.start({ language: 'typescript' })]);
});
after(() => Promise.all([kernel.close(), typescript.close()]));

const ok = async (question, of = kernel) => {
  const reply = await of.ask(question);
  assert.equal(reply.status, 'ok', JSON.stringify(reply));
  return reply;
};
const complete = async (code, cursor) => (await ok({ type: 'complete', code, ...(cursor === undefined ? {} : { cursor }) })).matches;

test('names, properties and keywords are completed', async () => {
  (await kernel.run('const harvest = { apples: 1, apricots: 2, _hidden: 3 }; let harvester = 4; class Barn { fill() {} }; var barn = new Barn()')).ok();
  assert.deepEqual(await complete('harv'), ['harvest', 'harvester']);
  assert.deepEqual(await complete('harvest.ap'), ['apples', 'apricots']);
  assert.deepEqual((await complete('harvest.')).slice(0, 2), ['apples', 'apricots'], 'what begins with an underscore comes last');
  assert.ok((await complete('barn.')).includes('fill'));
  assert.ok((await complete('barn?.f')).includes('fill'));
  assert.ok((await complete('Math.sq')).includes('sqrt'));
  assert.deepEqual(await complete('debugg'), ['debugger']);
  assert.deepEqual(await complete('no_such_name_anywhere'), []);
  assert.deepEqual(await complete('harvest.ap + 1', 10), ['apples', 'apricots']);
});

test('what is replaced is told in characters', async () => {
  const reply = await ok({ type: 'complete', code: "'🍎'; harvest.ap" });
  assert.deepEqual([reply.cursor_start, reply.cursor_end], [13, 15]);
});

test('nothing is completed behind an expression, and a spread is none', async () => {
  for (const code of ['harvest().ap', '[1].ma', '"a".spl', '1.to']) assert.deepEqual(await complete(code), [], code);
  assert.deepEqual(await complete('[...harvest.ap'), ['apples', 'apricots']);
});

test('no code of the user runs to answer', async () => {
  (await kernel.run(`var asked = 0;
    var trap = new Proxy({}, { get() { asked += 1; }, ownKeys() { asked += 1; return []; }, getPrototypeOf() { asked += 1; return null; } });
    var box = { get inside() { asked += 1; return { deep: 1 }; } };
    box[require('util').inspect.custom] = () => { asked += 1; return 'x'; };`)).ok();
  assert.deepEqual(await complete('trap.'), []);
  assert.deepEqual(await complete('box.inside.'), []);
  assert.deepEqual(await complete('box.in'), ['inside']);
  for (const code of ['trap', 'box', 'box.inside']) await ok({ type: 'inspect', code });
  assert.equal(await kernel.value('asked'), '0');
});

test('a name is explained, with its source if that is wanted', async () => {
  (await kernel.run('function reap(field, { width = 3 } = {}) { return field * width }')).ok();
  const plain = async (code, detail) => (await ok({ type: 'inspect', code, detail, cursor: 2 })).data['text/plain'];
  assert.equal(await plain('reap', 0), 'type: function\nfunction reap(field, { width = 3 } = {})');
  assert.match(await plain('reap', 1), /return field \* width/);
  assert.match((await ok({ type: 'inspect', code: 'harvest' })).data['text/plain'], /^type: Object\n\{ apples: 1/);
  assert.match((await ok({ type: 'inspect', code: 'Barn' })).data['text/plain'], /^type: function\nclass Barn/);
  assert.deepEqual((await ok({ type: 'inspect', code: 'no_such_name' })).found, false);
  assert.deepEqual((await ok({ type: 'inspect', code: '' })).found, false);
});

const STATES = [
  ['1 + 1', 'complete', ''],
  ['', 'complete', ''],
  ['if (x) {', 'incomplete', '  '],
  ['function f() {\n  if (x) {', 'incomplete', '    '],
  ['f(1,', 'incomplete', ''],
  ['`a', 'incomplete', ''],
  ['/* a', 'incomplete', ''],
  ['const a =', 'incomplete', ''],
  ['await 1', 'complete', ''],
  ['let a: number = 1', 'complete', ''],
  ['f())', 'invalid', ''],
  ['let 1', 'invalid', ''],
];
for (const [code, completeness, indent] of STATES) {
  test(`a prompt knows what to do with ${JSON.stringify(code)}`, async () => {
    for (const of of [kernel, typescript]) {
      const reply = await ok({ type: 'is_complete', code }, of);
      assert.deepEqual([reply.completeness, reply.indent], [completeness, indent], of === kernel ? 'JavaScript' : 'TypeScript');
    }
  });
}

test('the language and the kernel are told', async () => {
  const { language, file_extension, kernel: name, version } = await ok({ type: 'info' });
  assert.deepEqual([language, file_extension], ['javascript', '.js']);
  assert.match(name, /^skep-javascript-kernel \d/);
  assert.equal(`'${version}'`, await kernel.value('process.versions.node'));
  const other = await ok({ type: 'info' }, typescript);
  assert.deepEqual([other.language, other.file_extension, other.mimetype], ['typescript', '.ts', 'text/typescript']);
});

test('a question that makes no sense is refused and changes nothing', async () => {
  const { execution_count: before } = (await kernel.run('1')).ok().reply;
  for (const wrong of [{ type: 'complete' }, { type: 'complete', code: 'a', cursor: 2 }, { type: 'inspect', code: 'a', detail: 2 }, { type: 'is_complete', code: 1 }]) {
    assert.equal((await kernel.ask(wrong)).ename, 'ValueError', JSON.stringify(wrong));
  }
  assert.equal((await kernel.run('1')).ok().reply.execution_count, before + 1);
});
