'use strict';

// Run once after `npm ci`, by the node that will run the kernel: puts into `cache` what makes it start sooner. Each thread of the
// kernel becomes one file, the part of TypeScript's compiler that parses another, and V8 keeps what it compiled of them.

const fs = require('node:fs');
const path = require('node:path');

const acorn = require('acorn');

const { CACHE, CachedScript } = require('./src/cached_script');
const { functionBody } = require('./src/cell/load_module');
const { BLANKING, COMPILER } = require('./src/cell/typescript_compiler');
const { bundle } = require('./src/prepare/bundle');
const { excerpt } = require('./src/prepare/excerpt');

/** What cells use of TypeScript's compiler as long as there is nothing to compile in them. */
const PARSING = [
  'JSDocParsingMode',
  'LanguageVariant',
  'ModuleKind',
  'NodeFlags',
  'ScriptKind',
  'ScriptTarget',
  'SyntaxKind',
  'createScanner',
  'createSourceFile',
  'flattenDiagnosticMessageText',
  'forEachChild',
  'isBinaryExpression',
  'isNamedExports',
  'isNamedImports',
  'isStatement',
];

/** What parsing mentions and does not use: types, symbols, and services for editors that their methods lead to. */
const UNUSED = ['SignatureObject', 'SymbolObject', 'TypeObject'];

/** Cells that use what most cells use, for V8 to keep the functions that they need. */
const CELLS = {
  javascript: [
    'const x = [1, 2].map((n) => n * 2); let { y = 1, ...rest } = { z: `a${x}` }; class A extends Map { #p = 1; get p() { return this.#p } }\nx',
    'import fs from "node:fs"; for (const line of await Promise.all([1])) console.log(line); async function f(a, b = 1) { try { return await a?.b } catch { throw new Error() } }',
    'const {',
  ],
  typescript: [
    'interface Point { x: number }\nconst p: Point = { x: 1 } as const; export type T<U> = U[]; (<T>(y: T): T => y)(p!)',
    'import type { Stats } from "node:fs";\nasync function f<T>(a: T, b?: string): Promise<void> { await a; }\nabstract class A<T> implements Iterable<T> { private readonly x: number = 1; declare y: string; m?(): void; }',
    'enum Colour { Red = 1, Green }\n@((c: any, _: any) => c) class A { constructor(private x: number) {} }\nnamespace N { export const y = 1 }',
    'const x: = 1',
  ],
};

function write(name, text) {
  fs.writeFileSync(path.join(CACHE, name), text);
}

/** TypeScript's parser and what blanks types out, as one expression. */
function typescriptParser() {
  const code = fs.readFileSync(COMPILER, 'utf8');
  // `var ts = {}; ((module) => { … })(…)`, with everything inside.
  const [, program] = acorn.parse(code, { ecmaVersion: 'latest' }).body;
  const { body } = program.expression.callee.body;
  // Nodes have their methods from there.
  const parser = excerpt(code, body, { names: PARSING, kept: /^(["']use strict["']|setObjectAllocator\()/, unused: UNUSED });
  const blankString = path.join(path.dirname(BLANKING), 'blank-string.js');
  return `(() => {
const typescript = (() => {${parser}\nreturn { ${PARSING.join(', ')} };\n})();
const blankString = ((load, exports) => {${functionBody(blankString)}})(null, {}).default;
const load = (specifier) => (specifier === 'typescript' ? typescript : blankString);
const blank = ((load, exports) => {${functionBody(BLANKING)}})(load, {}).blankSourceFile;
return { typescript, blank };
})()`;
}

/** Loads what the main thread loads, without being it, and compiles some cells. */
function train(load) {
  for (const module of ['kernel', 'outlet', 'streams', 'wire']) load(`src/${module}.js`);
  const { compileCell } = load('src/cell/compile.js');
  const { bundleOf } = load('src/bundles.js');
  bundleOf([{ a: 1 }, 'b']);
  for (const [language, cells] of Object.entries(CELLS)) cells.forEach((code, index) => tryCell(compileCell, code, language, index));
  load('src/cell/typescript_compiler.js').keep();
}

function tryCell(compileCell, code, language, index) {
  try {
    compileCell(code, { language, file: `cell-${index}.js`, constants: new Set() });
  } catch (error) {
    // Some are wrong on purpose.
    if (error.name !== 'SyntaxError') throw error;
  }
}

function main() {
  fs.rmSync(CACHE, { recursive: true, force: true });
  fs.mkdirSync(CACHE, { recursive: true });
  write('typescript_parser.js', typescriptParser());
  for (const part of ['main', 'carrier', 'signal_listener']) {
    write(`${part}.js`, bundle(`src/${part}.js`));
    const script = new CachedScript(path.join(CACHE, `${part}.js`));
    const load = script.run()(require, `${__dirname}/`);
    if (part === 'main') train(load);
    script.keep();
  }
}

main();
