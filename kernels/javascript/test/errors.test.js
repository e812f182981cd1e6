'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;

before(async () => {
  kernel = await KernelClient.start();
});
after(() => kernel.close());

async function failure(code) {
  const outcome = await kernel.run(code);
  assert.equal(outcome.reply.status, 'error', JSON.stringify(outcome));
  return outcome.error;
}

for (const [code, kind, ename, evalue, place] of [
  ['null.x', 'runtime', 'TypeError', "Cannot read properties of null (reading 'x')", '1:6'],
  ['\n\n  nope', 'runtime', 'ReferenceError', 'nope is not defined', '3:3'],
  ['await 1;\nthrow new RangeError("r")', 'runtime', 'RangeError', 'r', '2:7'],
  ['await 1;\n(() => { throw new Error("e") })()', 'runtime', 'Error', 'e', '2:16\\)?\\n    at .*2:33'],
  ['class Q { m() { null.x } }; new Q().m()', 'runtime', 'TypeError', "Cannot read properties of null (reading 'x')", '1:22\\)\\n.*1:37'],
  ['let unset, set = null.x', 'runtime', 'TypeError', "Cannot read properties of null (reading 'x')", '1:23'],
  ['import fs from "fs"; null.x', 'runtime', 'TypeError', "Cannot read properties of null (reading 'x')", '1:27'],
  ['class MyError extends Error { name = "MyError" }\nthrow new MyError("own")', 'runtime', 'MyError', 'own', '2:7'],
  ['Promise.reject(new Error("rejected"))', 'runtime', 'Error', 'rejected', '1:16'],
  ['Promise.reject(new Error("lost")); 5', 'runtime', 'Error', 'lost', '1:16'],
  ['setTimeout(() => { throw new Error("timer") }, 1); await new Promise(() => {})', 'runtime', 'Error', 'timer', '1:26'],
  ['(async () => { await 1; throw new Error("forgotten") })(); await new Promise(() => {})', 'runtime', 'Error', 'forgotten', '1:31'],
  ['$$.async(); setTimeout(() => $$.sendError(new Error("sent")), 1)', 'runtime', 'Error', 'sent', '1:'],
  ['let x = ;', 'syntax', 'SyntaxError', 'Unexpected token (1:9)', '1:9'],
  ['1 +\n  foo bar', 'syntax', 'SyntaxError', 'Unexpected token (2:7)', '2:7'],
  ['let a; let a', 'syntax', 'SyntaxError', "Identifier 'a' has already been declared (1:12)", '1:12'],
  ['"unfinished', 'syntax', 'SyntaxError', 'Unterminated string constant (1:1)', '1:1'],
  ['return 5', 'syntax', 'SyntaxError', "'return' outside of function (1:1)", '1:1'],
  ['/(/', 'syntax', 'SyntaxError', 'Invalid regular expression: /(/: Unterminated group (1:2)', '1:2'],
]) {
  test(`the failure of ${JSON.stringify(code)}`, async () => {
    const error = await failure(code);
    assert.deepEqual([error.kind, error.ename, error.evalue], [kind, ename, evalue]);
    const [trace] = error.traceback;
    assert.match(trace, new RegExp(`cell-\\d+\\.js:${place}`));
    assert.doesNotMatch(trace, /kernels|skep|src\/|node:(vm|internal)/);
  });
}

for (const [code, ename, evalue] of [
  ['throw "str"', 'string', "'str'"],
  ['throw { a: 1 }', 'object', '{ a: 1 }'],
  ['throw null', 'null', 'null'],
  ['throw undefined', 'undefined', 'undefined'],
  ['throw 5', 'number', '5'],
  ['await Promise.reject(7)', 'number', '7'],
]) {
  test(`what is no error can be thrown: ${code}`, async () => {
    const error = await failure(code);
    assert.deepEqual([error.kind, error.ename, error.evalue, error.traceback], ['runtime', ename, evalue, []]);
  });
}

test('frames of functions from other cells name their cells', async () => {
  const first = (await kernel.run('function thrower() {\n  throw new Error("far")\n}')).reply.execution_count;
  const [trace] = (await failure('thrower()')).traceback;
  assert.match(trace, new RegExp(`at thrower \\(cell-${first}\\.js:2:9\\)\n    at cell-${first + 1}\\.js:1:1`));
});

test('frames of Node.js between frames of the user stay, and the properties too', async () => {
  const [trace] = (await failure('require("fs").readFileSync("/nope")')).traceback;
  assert.match(trace, /readFileSync \(node:fs/);
  assert.match(trace, /cell-\d+\.js:1:15 \{\n {2}errno: -2,\n {2}code: 'ENOENT'/);
  const [mapped] = (await failure('[1].map(() => { throw new Error("in map") })')).traceback;
  assert.match(mapped, /at Array\.map \(<anonymous>\)\n {4}at cell-\d+\.js:1:5$/);
});

test('the cause of an error is shown', async () => {
  const [trace] = (await failure('throw new Error("outer", { cause: new TypeError("inner") })')).traceback;
  assert.match(trace, /\[cause\]: TypeError: inner/);
});

test('an error whose properties fail is reported', async () => {
  const error = await failure('const e = new Error("x"); Object.defineProperty(e, "message", { get() { throw 1 } }); Object.defineProperty(e, "name", { get() { throw 2 } }); throw e');
  assert.equal(error.ename, 'Error');
});

test('an assignment to a constant of an earlier cell fails', async () => {
  await kernel.run('const fixed = 1');
  const error = await failure('1; fixed = 2');
  assert.match(error.traceback[0], /cell-\d+\.js:1:10$/);
  assert.equal(error.evalue, 'Assignment to constant variable.');
  assert.equal(await kernel.value('fixed'), '1');
});

test('an error after the last cell is printed', async () => {
  await kernel.run('setTimeout(() => { throw new Error("late") }, 5); 1');
  for (;;) {
    const message = await kernel.receive();
    if (message.type !== 'stream') continue;
    assert.deepEqual([message.parent, message.name], [null, 'stderr']);
    assert.match(message.text, /^Uncaught Error: late\n {4}at .*cell-\d+\.js/);
    break;
  }
  assert.equal(await kernel.value('1'), '1');
});

test('handlers of the user are respected', async () => {
  await kernel.run('let seen = []; process.on("unhandledRejection", (reason) => seen.push(reason)); process.on("uncaughtException", (error) => seen.push(error))');
  (await kernel.run('Promise.reject(1); setImmediate(() => { throw 2 }); await new Promise((resolve) => setTimeout(resolve, 20))')).ok();
  assert.equal(await kernel.value('seen.join()'), "'1,2'");
  await kernel.run('for (const name of ["unhandledRejection", "uncaughtException"]) process.off(name, process.listeners(name).at(-1))');
});

test('too deep a recursion is an error like others', async () => {
  const error = await failure('(function f() { f() })()');
  assert.equal(error.ename, 'RangeError');
  assert.match(error.evalue, /call stack/);
});
