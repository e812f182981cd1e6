'use strict';

const assert = require('node:assert/strict');
const { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const { CACHE, CachedScript } = require('../src/cached_script');
const { loadModule } = require('../src/cell/load_module');
const { BLANKING, loadCompiler, loadParser } = require('../src/cell/typescript_compiler');
const { KernelClient } = require('./kernel_client');

const FOLDER = path.join(__dirname, '..');

const PROGRAMS = [
  'const a: number = 1 as const; let b = <T,>(x: T): T => x!; type C<T> = T extends infer U ? U[] : never',
  'interface P { x: number; readonly [key: string]: unknown }\nclass Q<T> extends Map<string, T> implements P { declare x: number; private y?: T; static #z = 1; override get(k: string): T | undefined { return super.get(k) } }',
  'import type { A } from "a"; import { type B, c } from "b"; export type { D } from "d"; export { type E, f } from "e"; import g = require("g")',
  'function over(a: string): void;\nfunction over(this: Window, a?: any): asserts a is string { }\nabstract class S { abstract m(): void; constructor(x: number); constructor(x: any) {} }',
  'let t = `a${b as string}`; for (const [k, v] of Object.entries(o) as [string, number][]) { label: while (k satisfies string) break label }',
  'declare global { interface Window { x: 1 } }\ndeclare module "m" { }\ndeclare const d: unique symbol; namespace Empty { export type X = 1 }',
  'const regex = /[\\p{L}--[a-z]]/v; 1_000n; a ??= b?.c?.[0]; x = y as any\n(z)',
  'enum E { A, B = "b" }',
  'const s = "\\u{1F600} ünïcödé"; function ä<const T extends readonly unknown[]>(...x: T): T { return x }',
  'using r = open(); await using q = open2(); @dec class D {}',
  'const x: = 1;', 'class {', 'let let = 1', '"unterminated', 'type = ;', 'a b c', 'function (x: number', 'x as', '<T>x', 'return', 'await 1; yield 2', '/re(/', '1__0', '`${',
];

/** All that is used of what a parser made of a program. */
function read({ typescript, blank }, code) {
  const { createSourceFile, flattenDiagnosticMessageText, forEachChild, ScriptKind, ScriptTarget } = typescript;
  const parsed = createSourceFile('cell.ts', code, { languageVersion: ScriptTarget.ESNext }, true, ScriptKind.TS);
  const problems = parsed.parseDiagnostics.map(({ start, messageText }) => [
    parsed.getLineAndCharacterOfPosition(start),
    flattenDiagnosticMessageText(messageText, '\n'),
  ]);
  const shape = (node) => {
    const below = [];
    forEachChild(node, (child) => void below.push(shape(child)));
    return [node.kind, node.getStart(parsed), node.end, below];
  };
  const complaints = [];
  const blanked = problems.length > 0 ? null : blank(parsed, (node) => complaints.push(node.kind));
  return { problems, shape: shape(parsed), blanked, complaints };
}

test('the part of the compiler that parses does so as the whole compiler does', () => {
  assert.ok(existsSync(CACHE), 'run-tests prepares it');
  const typescript = loadCompiler();
  const { blankSourceFile: blank } = loadModule(BLANKING, { typescript });
  const part = loadParser();
  assert.notEqual(part.typescript, typescript);
  for (const code of PROGRAMS) assert.deepEqual(read(part, code), read({ typescript, blank }, code), code);
});

test('what V8 has kept is what it takes', () => {
  for (const name of ['main.js', 'carrier.js', 'signal_listener.js', 'typescript_parser.js']) {
    assert.ok(new CachedScript(path.join(CACHE, name)).isFresh, name);
  }
});

test('a kernel that was not prepared is the same, only slower to start', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'skep-unprepared-'));
  try {
    for (const name of ['skep-javascript-kernel', 'package.json', 'src']) cpSync(path.join(FOLDER, name), path.join(folder, name), { recursive: true });
    symlinkSync(path.join(FOLDER, 'node_modules'), path.join(folder, 'node_modules'));
    const launcher = path.join(folder, 'skep-javascript-kernel');
    const kernel = await KernelClient.start({ language: 'typescript', launcher });
    const outcome = await kernel.run('const x: number[] = [1]; enum E { A = 5 }; console.log(E.A); x');
    assert.equal(outcome.ok().value['text/plain'], '[ 1 ]');
    assert.equal(outcome.text(), '5\n');
    await kernel.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
