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
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skep-cells-'));
  kernel = await KernelClient.start({ cwd: folder });
});

after(async () => {
  await kernel.close();
  fs.rmSync(folder, { recursive: true });
});

test('hello says who speaks which protocol', () => {
  assert.equal(kernel.hello.type, 'hello');
  assert.equal(kernel.hello.protocol, 1);
  assert.equal(kernel.hello.pid, kernel.pid);
});

test('an execution is busy, input, value, reply, idle', async () => {
  const outcome = await kernel.run('40 + 2');
  assert.deepEqual(Array.from(outcome, ({ type, state }) => state ?? type), ['busy', 'execute_input', 'execute_result', 'reply', 'idle']);
  assert.ok(outcome.every(({ parent }) => parent === outcome[0].parent));
  assert.equal(outcome.value['text/plain'], '42');
});

test('declarations of all kinds persist', async () => {
  await kernel.run('let a1 = 1; const b1 = 2; var c1 = 3; function d1() { return a1 + b1 } class E1 { f = 5 }; const { g1, h: [i1] } = { g1: 6, h: [7] }');
  assert.equal(await kernel.value('[a1, b1, c1, d1(), new E1().f, g1, i1].join()'), "'1,2,3,3,5,6,7'");
  await kernel.run('a1 = 10');
  assert.equal(await kernel.value('d1()'), '12');
});

test('declarations of a cell that awaits persist', async () => {
  await kernel.run('const p2 = await Promise.resolve(5); function q2() { return p2 }; class R2 {}; for (var s2 of [1, 2]) await s2;');
  assert.equal(await kernel.value('[p2, q2(), typeof R2, s2].join()'), "'5,5,function,2'");
});

test('a constant may be declared again in a later cell', async () => {
  for (const value of [1, 2, 3]) assert.equal(await kernel.value(`const again = ${value}; class Again {}; let once = ${value}; again + once`), String(value * 2));
});

test('globals of Node.js can be declared', async () => {
  for (const name of ['crypto', 'fetch', 'performance', 'navigator', 'process2', 'URL', 'structuredClone', 'Buffer2', '__dirname', 'event', 'name', 'status']) {
    assert.equal(await kernel.value(`const ${name} = 'mine'; ${name}`), "'mine'", name);
  }
});

test('a promise is awaited and its value is the result', async () => {
  assert.equal(await kernel.value('Promise.resolve(7)'), '7');
  assert.equal(await kernel.value('(async () => { await null; return [1] })()'), '[ 1 ]');
  assert.equal(await kernel.value('new Promise((resolve) => setTimeout(resolve, 5, "late"))'), "'late'");
});

test('require finds built-in modules and those of the working directory', async () => {
  fs.mkdirSync(path.join(folder, 'node_modules/thing'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'node_modules/thing/index.js'), 'module.exports = { thing: 1 }');
  fs.writeFileSync(path.join(folder, 'local.js'), 'exports.local = __filename');
  assert.equal(await kernel.value('require("node:path").sep'), "'/'");
  assert.equal(await kernel.value('require("thing").thing'), '1');
  assert.equal(await kernel.value('require("./local").local'), `'${path.join(folder, 'local.js')}'`);
  assert.equal(await kernel.value('require.resolve("thing").endsWith("index.js")'), 'true');
});

test('import works, static and dynamic, for all kinds of modules', async () => {
  fs.writeFileSync(path.join(folder, 'esm.mjs'), 'export default 1; export const two = 2; export const meta = import.meta.url');
  fs.writeFileSync(path.join(folder, 'data.json'), '{"n": 3}');
  assert.equal(await kernel.value("import one, { two as zwei } from './esm.mjs'\nimport * as all from './esm.mjs'\nimport 'node:fs'\n[one, zwei, Object.keys(all).length]"), '[ 1, 2, 3 ]');
  assert.equal(await kernel.value('zwei + one'), '3');
  assert.equal(await kernel.value("(await import('./esm.mjs')).two"), '2');
  assert.equal(await kernel.value("const load = () => import('./esm.mjs'); (await load()).default"), '1');
  assert.equal(await kernel.value("import data from './data.json' with { type: 'json' }; data.n"), '3');
  assert.equal(await kernel.value("import { readFileSync } from 'fs'; typeof readFileSync"), "'function'");
  assert.equal(await kernel.value('import.meta.dirname'), `'${folder}'`);
  // Whoever runs a file says which.
  (await kernel.run("__filename = '/srv/app/a.mjs'; undefined")).ok();
  assert.equal(await kernel.value('import.meta.url'), "'file:///srv/app/a.mjs'");
  assert.equal(await kernel.value('import.meta.dirname'), "'/srv/app'");
  (await kernel.run('__filename = undefined; undefined')).ok();
});

test('a missing export and a missing module are named', async () => {
  const missing = await kernel.run("import { nope } from 'fs'");
  assert.equal(missing.error.ename, 'SyntaxError');
  assert.match(missing.error.evalue, /'fs' does not provide an export named 'nope'/);
  const unknown = await kernel.run("import x from 'no-such-package'");
  assert.match(unknown.error.evalue, /Cannot find package 'no-such-package'/);
  assert.match((await kernel.run("require('no-such-package')")).error.evalue, /Cannot find module 'no-such-package'/);
});

test('modules follow the working directory', async () => {
  const other = path.join(folder, 'other');
  fs.mkdirSync(other);
  fs.writeFileSync(path.join(other, 'here.js'), 'module.exports = "there"');
  assert.equal((await kernel.ask({ type: 'chdir', path: other })).status, 'ok');
  assert.equal(await kernel.value('require("./here")'), "'there'");
  assert.equal(await kernel.value('(await import("./here.js")).default'), "'there'");
  assert.equal(await kernel.value('process.cwd()'), `'${other}'`);
  await kernel.ask({ type: 'chdir', path: folder });
});

test('executions are counted, failing ones too, empty ones not', async () => {
  const count = async (code) => (await kernel.run(code)).reply.execution_count;
  const first = await count('1');
  assert.equal(await count('throw 1'), first + 1);
  assert.equal(await count('let let'), first + 2);
  assert.equal(await count('  \n'), first + 2);
  assert.equal(await count('// a comment'), first + 3);
});

test('the realm is that of Node.js', async () => {
  assert.equal(await kernel.value('[[] instanceof Array, new Error instanceof Error, require("vm").runInThisContext("[]") instanceof Array].join()'), "'true,true,true'");
  assert.equal(await kernel.value('process.argv.length'), '1');
  assert.equal(await kernel.value('require("worker_threads").isMainThread'), 'true');
  assert.equal(await kernel.value('(function () { return this === globalThis })() && this === globalThis'), 'true');
});

test('the kernel adds few names to the globals', async () => {
  const value = await kernel.value('Object.keys(globalThis).filter((key) => key.includes("skep")).join()');
  assert.equal(value, "''");
});

test('standard input is at its end', async () => {
  assert.equal(await kernel.value('require("fs").readFileSync(0).length'), '0');
  assert.equal(await kernel.value('let read = ""; for await (const piece of process.stdin) read += piece; read'), "''");
});

test('strange text arrives as it is', async () => {
  for (const text of ['\u2028\u2029', '😀漢字', '\u0000\u007f\u0085', '\\', '"\'`']) {
    assert.equal(await kernel.value(`[...${JSON.stringify(text)}].map((c) => c.codePointAt()).join()`), `'${[...text].map((c) => c.codePointAt()).join()}'`);
  }
});
