'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;

before(async () => {
  kernel = await KernelClient.start();
});
after(() => kernel.close());

for (const [code, bundle] of [
  ['"text"', { 'text/plain': "'text'" }],
  ['10n', { 'text/plain': '10n' }],
  ['Symbol("x")', { 'text/plain': 'Symbol(x)' }],
  ['null', { 'text/plain': 'null' }],
  ['[1, "a", null]', { 'text/plain': "[ 1, 'a', null ]", 'application/json': [1, 'a', null] }],
  ['({ a: 1, b: [1, 2] })', { 'text/plain': '{ a: 1, b: [ 1, 2 ] }', 'application/json': { a: 1, b: [1, 2] } }],
  ['[]', { 'text/plain': '[]', 'application/json': [] }],
  ['[NaN, Infinity]', { 'text/plain': '[ NaN, Infinity ]', 'application/json': [null, null] }],
  ['({ ["__proto__"]: 1 })', { 'text/plain': "{ ['__proto__']: 1 }", 'application/json': JSON.parse('{"__proto__": 1}') }],
  ['["\\ud800"]', { 'text/plain': "[ '\\ud800' ]", 'application/json': ['\ufffd'] }],
  ['new Map([[1, 2]])', { 'text/plain': 'Map(1) { 1 => 2 }' }],
  ['[1n]', { 'text/plain': '[ 1n ]' }],
  ['[undefined]', { 'text/plain': '[ undefined ]' }],
  ['[() => 1]', { 'text/plain': '[ [Function (anonymous)] ]' }],
  ['[,1]', { 'text/plain': '[ <1 empty item>, 1 ]' }],
  ['let cycle = []; cycle.push(cycle); cycle', { 'text/plain': '<ref *1> [ [Circular *1] ]' }],
  ['let shared = [1]; [shared, shared]', { 'text/plain': '[ [ 1 ], [ 1 ] ]', 'application/json': [[1], [1]] }],
  ['({ get x() { throw new Error("not to be called") } })', { 'text/plain': '{ x: [Getter] }' }],
  ['new Proxy([], {})', { 'text/plain': '[]' }],
  ['new (class Point { x = 1 })', { 'text/plain': 'Point { x: 1 }' }],
  ['new Date(NaN)', { 'text/plain': 'Invalid Date' }],
  ['Buffer.from("89504e470d0a1a0a", "hex")', { 'text/plain': '<Buffer 89 50 4e 47 0d 0a 1a 0a>', 'image/png': 'iVBORw0KGgo=' }],
  ['new Uint8Array([0xff, 0xd8, 0xff])', { 'text/plain': 'Uint8Array(3) [ 255, 216, 255 ]', 'image/jpeg': '/9j/' }],
  ['Buffer.from("plain")', { 'text/plain': '<Buffer 70 6c 61 69 6e>' }],
  ['({ _toHtml: () => "<b>" , toString: 1 })._toHtml.call()', { 'text/plain': "'<b>'" }],
  ['({ [Symbol.for("Jupyter.display")]: () => ({ "text/html": "<i>", "x/y": 1 }) })', { 'text/html': '<i>', 'x/y': '1' }],
  ['$$.html("<b>bold</b>")', { 'text/html': '<b>bold</b>' }],
  ['$$.png(Buffer.from("89504e47", "hex")); 5', { 'image/png': 'iVBORw==' }],
  ['$$.json({ a: [1] })', { 'application/json': { a: [1] } }],
  ['$$.mime({ "text/latex": "$x$", "application/vnd.z+json": { z: 1 } })', { 'text/latex': '$x$', 'application/vnd.z+json': { z: 1 } }],
  ['$$.async(); setTimeout(() => $$.text("later"), 5)', { 'text/plain': 'later' }],
  ['$$.async(); setTimeout(() => $$.sendResult([1]), 5)', { 'text/plain': '[ 1 ]', 'application/json': [1] }],
]) {
  test(`the value of ${code}`, async () => {
    assert.deepEqual((await kernel.run(code)).ok().value, bundle);
  });
}

for (const code of ['undefined', 'void 0', 'let nothing = 5', 'function none() {}', 'Promise.resolve()', '', '// nothing', 'await null; undefined', 'if (false) 1', '$$.async(); setTimeout($$.done, 5)']) {
  test(`no value for ${code || 'nothing'}`, async () => {
    assert.equal((await kernel.run(code)).ok().value, undefined);
  });
}

test('objects may show themselves in several ways', async () => {
  const { value } = (await kernel.run('({ _toHtml() { return "<p>" }, _toSvg: async () => "<svg/>", _toMime: () => ({ "text/markdown": "*" }) })')).ok();
  assert.equal(value['text/html'], '<p>');
  assert.equal(value['image/svg+xml'], '<svg/>');
  assert.equal(value['text/markdown'], '*');
});

test('an object that fails to show itself fails the cell', async () => {
  const outcome = await kernel.run('({ _toHtml() { throw new TypeError("ugly") } })');
  assert.equal(outcome.error.ename, 'TypeError');
  assert.equal(outcome.reply.status, 'error');
  assert.equal(await kernel.value('({ [require("util").inspect.custom]() { throw 1 } })'), '[an object that cannot be shown]');
});

test('what is displayed comes in order with what is printed', async () => {
  const outcome = await kernel.run('console.log(1); display([2]); console.log(3); $$.display().html("<4>"); display.markdown("*5*"); "six"');
  const order = Array.from(outcome).slice(2, -2).map(({ type, text, data }) => text ?? `${type} ${Object.values(data)[0]}`);
  assert.deepEqual(order, ['1\n', 'display_data [ 2 ]', '3\n', 'display_data <4>', 'display_data *5*', "execute_result 'six'"]);
});

test('a display with a name is updated', async () => {
  const outcome = await kernel.run('$$.display("d").text("1"); $$.display("d").text("2"); $$.clear({ wait: true })');
  const [first] = outcome.ofType('display_data');
  const [second] = outcome.ofType('update_display_data');
  assert.deepEqual([first.transient, second.transient, second.data], [{ display_id: 'd' }, { display_id: 'd' }, { 'text/plain': '2' }]);
  assert.equal(outcome.ofType('clear_output')[0].wait, true);
});

test('a large value arrives whole', async () => {
  const { value } = (await kernel.run('"é".repeat(3e6)')).ok();
  assert.equal(value['text/plain'].length, 3e6 + 2);
  const list = (await kernel.run('Array.from({ length: 3e5 }, (_, n) => n)')).ok().value['application/json'];
  assert.equal(list.length, 3e5);
  assert.equal(list.at(-1), 299999);
  const image = (await kernel.run('$$.display().png(Buffer.alloc(5e6)); 1')).ok().displays[0]['image/png'];
  assert.equal(Buffer.from(image, 'base64').length, 5e6);
});
