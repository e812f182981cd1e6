'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { SourceMap } = require('../src/cell/source_map');
const { KernelClient } = require('./kernel_client');

const kernels = {};

before(async () => {
  for (const language of ['typescript', 'javascript']) kernels[language] = await KernelClient.start({ language });
});
after(() => Promise.all(Object.values(kernels).map((kernel) => kernel.close())));

for (const language of ['typescript', 'javascript']) {
  for (const [what, code, value] of [
    ['annotations', 'const n1: number = 1; function f1<T>(x: T): T { return x }; f1<number>(n1 as number)', '1'],
    ['interfaces and types', 'interface P { x: number; y?: string }\ntype Q = P | null;\nconst p: Q = { x: 1 };\np!.x', '1'],
    ['generics and satisfies', 'const m = new Map<string, number[]>([["a", [1]]]); (m satisfies Map<string, number[]>).get("a")', '[ 1 ]'],
    ['enums', 'enum Colour { Red = 1, Green }\n[Colour.Green, Colour[1]]', "[ 2, 'Red' ]"],
    ['parameter properties', 'class A { constructor(private readonly x: number, public y = 2) {} sum() { return this.x + this.y } }\nnew A(1).sum()', '3'],
    ['namespaces', 'namespace N { export const z = 5 }\nN.z', '5'],
    ['abstract classes and overloads', 'abstract class B { abstract m(): number }\nfunction o(a: string): string;\nfunction o(a: any) { return a }\nclass C extends B { m() { return 4 } override toString() { return "C" } }\nnew C().m()', '4'],
    ['decorators', 'function twice(method: any, context: ClassMethodDecoratorContext) { return function (this: any) { return method.call(this) * 2 } }\nclass D { @twice m() { return 4 } }\nnew D().m()', '8'],
    ['await', 'const late: number = await Promise.resolve<number>(6); late', '6'],
    ['imports of types', 'import type { Stats } from "fs";\nimport { type Dirent, readFileSync } from "fs";\ntypeof readFileSync as string', "'function'"],
    ['arrow functions with generics', 'const id = <T,>(x: T): T => x; id("s")', "'s'"],
  ]) {
    test(`${what} in ${language}`, async () => {
      assert.equal(await kernels[language].value(code), value);
    });
  }
}

test('what JavaScript would read otherwise is TypeScript in a TypeScript kernel', async () => {
  assert.equal(await kernels.typescript.value('let string = 1; function g<T>(x: number) { return x }; g<string>(7)'), '7');
  assert.equal(await kernels.javascript.value('let g2 = 1, string2 = 2; g2<string2>(7)'), 'false');
});

test('declarations persist, enums too, and may be declared again', async () => {
  const { typescript } = kernels;
  await typescript.run('const first: number = 1; enum Kept { A = 7 }; class Typed { x: number = 1 }');
  assert.equal(await typescript.value('[first, Kept.A, new Typed().x].join()'), "'1,7,1'");
  assert.equal(await typescript.value('const first: string = "again"; first'), "'again'");
  assert.match((await typescript.run('first = "changed"')).error.evalue, /constant/);
});

test('places are those of what was written, whether stripped or compiled', async () => {
  const { typescript } = kernels;
  const stripped = (await typescript.run('interface X {\n  y: number\n}\nfunction fail(x: X): never {\n  throw new Error("s")\n}\nfail({ y: 1 })')).error.traceback[0];
  assert.match(stripped, /at fail \(cell-\d+\.ts:5:9\)\n {4}at cell-\d+\.ts:7:1/);
  const compiled = (await typescript.run('enum E {\n  A\n}\n\nfunction fail2(x: E): never {\n\n  throw new Error("c")\n}\nfail2(E.A)')).error.traceback[0];
  assert.match(compiled, /at fail2 \(cell-\d+\.ts:7:9\)\n {4}at cell-\d+\.ts:9:1/);
});

test('a syntax error has the compiler’s words and its place', async () => {
  const { error } = await kernels.typescript.run('const ok = 1;\nlet x: = 5');
  assert.deepEqual([error.kind, error.ename, error.evalue], ['syntax', 'SyntaxError', 'Type expected. (2:8)']);
});

test('an assignment to what is no type is not checked', async () => {
  assert.equal(await kernels.typescript.value('const wrong: number = "text" as any; wrong'), "'text'");
});

test('a source map leads back', () => {
  // Line 1 column 1 from line 1 column 1; line 2 columns 1 and 5 from line 3 columns 1 and 9.
  const map = new SourceMap('AAAA;AAEA,IAAQ');
  assert.deepEqual(map.original(1, 1), [1, 1]);
  assert.deepEqual(map.original(2, 1), [3, 1]);
  assert.deepEqual(map.original(2, 4), [3, 1]);
  assert.deepEqual(map.original(2, 6), [3, 9]);
  assert.deepEqual(map.original(9, 9), [9, 9]);
});
