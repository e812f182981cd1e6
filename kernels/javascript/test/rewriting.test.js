'use strict';

// Cells against plain scripts: what the rewriting must not change, on programs that nobody has thought of.

const assert = require('node:assert/strict');
const test = require('node:test');
const { inspect } = require('node:util');
const vm = require('node:vm');

const { GUARD } = require('../src/cell/constants');
const { parse, rewrite } = require('../src/cell/rewrite');
const { Programs } = require('./programs');

const SEEDS = 400;

/** A place to run in: its log, and what the rewriting expects to find. */
function place() {
  const context = vm.createContext({ log: [] });
  const guard = new Proxy({}, {
    get: (_, name) => vm.runInContext(String(name), context),
    set() {
      throw new TypeError('Assignment to constant variable.');
    },
  });
  Object.defineProperty(context, GUARD, { value: guard });
  return context;
}

/** What running gave, as text. */
async function outcome(context, run) {
  let end;
  // Contexts are only given up between turns of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  try {
    end = `value ${inspect(await run())}`;
  } catch (error) {
    end = `${error.name}: ${error.message}`;
  }
  return `${inspect(context.log, { depth: 9, maxArrayLength: null })}\n${end}`;
}

function plainly(code) {
  const context = place();
  return outcome(context, () => vm.runInContext(code, context));
}

/** Runs cells one after the other, until one fails. */
function asCells(cells) {
  const context = place();
  const constants = new Set();
  return outcome(context, async () => {
    let value;
    for (const code of cells) {
      const script = rewrite(code, { constants });
      for (const name of script.names) constants.delete(name);
      for (const name of script.constants) constants.add(name);
      for (const name of script.names) if (!(name in context)) context[name] = undefined;
      value = vm.runInContext(script.source, context);
      if (script.isAsync) ({ value } = await value);
    }
    return value;
  });
}

test('a program means the same as a cell', async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const code = new Programs(seed).program().join('\n');
    assert.equal(await asCells([code]), await plainly(code), `seed ${seed}\n${code}`);
  }
});

test('a program means the same as a cell that awaits', async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const code = new Programs(seed).program().join('\n');
    const awaiting = `await null;\n${code}`;
    // Without the `await`, what stands before the program must have a value too.
    assert.equal(await asCells([awaiting]), await plainly(`null;\n${code}`), `seed ${seed}\n${code}`);
  }
});

test('a program means the same as one cell for each statement', async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const statements = new Programs(seed).program();
    // The value is that of the last cell, not of the last that had one.
    const code = `${statements.join('\n')}\n'the end'`;
    const cells = [...statements, "'the end'"].map((statement, n) => (n % 3 === 2 ? `await 0;${statement}` : statement));
    assert.equal(await asCells(cells), await plainly(code), `seed ${seed}\n${code}`);
  }
});

test('what is rewritten keeps its lines', () => {
  for (let seed = 1; seed <= SEEDS / 5; seed++) {
    const code = new Programs(seed).program().join('\n');
    for (const cell of [code, `await null;\n${code}`]) {
      const { source } = rewrite(cell);
      const lines = source.split('\n');
      cell.split('\n').forEach((line, number) => {
        const words = line.match(/\b[a-z]\d+\b/g) ?? [];
        for (const word of words) assert.ok(lines[number].includes(word), `${word} in line ${number} of\n${source}`);
      });
    }
  }
});

test('every name may be declared again, as anything', async () => {
  const ways = ['let x = 1', 'const x = 2', 'var x = 3', 'class x {}', 'function x() {}', 'const {x} = {x: 4}', 'await 0; const x = 5', 'await 0; function x() {}', 'await 0; class x {}'];
  for (const first of ways) {
    for (const second of ways) {
      const alone = await asCells([second, 'String(x)']);
      assert.equal(await asCells([first, second, 'String(x)']), alone, `${first}, then ${second}`);
    }
  }
});

test('a constant is constant until it is declared anew', async () => {
  const refused = /TypeError: Assignment to constant variable\./;
  for (const assignment of ['c = 2', 'c++', '[c] = [2]', '({c} = {c: 2})', '({c = 3} = {})', '({d: c} = {d: 2})', 'for (c of [2]);', 'for (c in {a: 1});', '(() => { c = 2 })()', 'await 0; c ||= 0; c &&= 2']) {
    assert.match(await asCells(['const c = 1', assignment]), refused, assignment);
    assert.match(await asCells([`const c = 1;\n${assignment}`]), refused, assignment);
    assert.match(await asCells(['const c = 1', `let c = 0;\n${assignment};\n'fine'`]), /value 'fine'/, assignment);
  }
});

test('what shadows a constant may be assigned to', async () => {
  for (const code of [
    '{ let c; c = 2 }', 'for (let c = 0; c < 1; c++);', '(c => { c = 2 })(1)', '(function c() { c = 2 })()', '(() => { if (true) { var c } c = 2 })()',
    'try { throw 1 } catch (c) { c = 2 }', 'switch (1) { case 1: let c; c = 2 }', 'for (let c of [1]) c = 2', '(({c}) => { c = 2 })({})', '((...c) => { c = 2 })()',
    'class A { static { let c; c = 2 } }', '(() => { function c() {} c = 2 })()',
  ]) {
    assert.match(await asCells(['const c = 1', `${code}; c`]), /value 1$/, code);
  }
});

for (const [what, code, value] of [
  ['an object pattern at the beginning', 'const {a, b: [c], ...d} = await {a: 1, b: [2], e: 3}\n;[a, c, d]', '[ 1, 2, { e: 3 } ]'],
  ['statements without semicolons', 'let a = await 1\nlet {b} = {b: 2}\nlet [c] = [3]\na + b + c', '6'],
  ['a template after a declaration', 'let a = await 1\n;`${a}`', "'1'"],
  ['a class before a bracket', 'await 0\nclass A {}\n[1, 2].length', '2'],
  ['a class before a parenthesis', 'class A {}\n(3)', '3'],
  ['declarations in loops', 'for (var i = await 0, j = 5; i < j; i++);\ni + j', '10'],
  ['declarations in heads of loops', 'for (var {x} of [{x: 1}, {x: 2}]) await 0\nx', '2'],
  ['a declaration as a body', 'if (await true) var {y} = {y: 1}; else var y = 2\ny', '1'],
  ['for await', 'let s = 0; for await (const n of [1, Promise.resolve(2)]) s += n; s', '3'],
  ['hoisted functions', 'const r = f(await 1); function f(n) { return n + 1 }\nr', '2'],
  ['names of functions', 'const f = () => await0, g = class {}; await 0; f.name + g.name', "'fg'"],
  ['comments at the end', 'await 1 // one', '1'],
  ['comments in parentheses', '(await 2 /* two */) // three', '2'],
  ['a strict cell', '"use strict"\nawait 0; const z = 1; (function () { return this })()', 'undefined'],
  ['exports', 'export const a = 1; export default class B {}; export function f() {}\n[a, typeof B, typeof f]', "[ 1, 'function', 'function' ]"],
  ['an anonymous default', 'export default function () {}; 7', '7'],
  ['an if without a value', '1; if (await false) 2', 'undefined'],
  ['a value in finally', 'try { await 1 } finally { 2 }', '1'],
  ['a labelled loop', 'a: for (const n of [await 1, 2]) { n; if (n == 2) break a; else n + 5 }', 'undefined'],
  ['a switch', 'switch (await 1) { case 1: "one"; break; default: "none" }', "'one'"],
  ['a line separator', 'const s = "\u2028"; await 0; s.length', '1'],
  ['an HTML comment', '<!-- a comment of the web\n5', '5'],
  ['a hashbang', '#!/usr/bin/env node\n6', '6'],
  ['octal and with', 'with ({p: 010}) p', '8'],
]) {
  test(`${what} in a cell`, async () => {
    assert.equal(await asCells([code]), `[]\nvalue ${value}`, rewrite(code).source);
  });
}

test('places lead back to where they came from', () => {
  for (let seed = 1; seed <= SEEDS / 4; seed++) {
    const code = new Programs(seed).program().join('\n');
    for (const cell of [code, `await null;\n${code}`]) {
      const { source, columnOffset, columns } = rewrite(cell);
      const originals = cell.split('\n');
      source.split('\n').slice(0, originals.length).forEach((line, index) => {
        for (const { 0: word, index: at } of line.matchAll(/\b(?:v\d+|log|typeof|catch)\b/g)) {
          const column = at + 1 + (index === 0 ? columnOffset : 0);
          // What was put in has no place of its own.
          if (column < 1 || /globalThis\.$|; v\d+ = $/.test(line.slice(0, at))) continue;
          const [, original] = columns?.original(index + 1, column) ?? [index + 1, column];
          const found = originals[index].slice(original - 1);
          assert.ok(found.startsWith(word) || /^(class|let|const|var|function)\b|^\W/.test(found), `${word} at ${index + 1}:${column} of\n${source}\n${found}`);
        }
      });
    }
  }
});

test('what is no JavaScript is refused with its place', () => {
  for (const [code, line, column] of [['let x = ;', 1, 8], ['1\nfoo bar', 2, 4], ['await', 1, 5], ['}', 1, 0], ['}) (', 1, 0], ['return 1', 1, 0]]) {
    assert.throws(() => parse(code), (error) => error instanceof SyntaxError && error.loc.line === line && error.loc.column === column, code);
  }
});
