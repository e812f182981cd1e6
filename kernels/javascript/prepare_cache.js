'use strict';

// Run once after `npm ci`, by the node that will run the kernel: has V8 keep what it compiled of TypeScript.

const { toJavaScript } = require('./src/cell/typescript');
const { writeCache } = require('./src/cell/typescript_compiler');

const CELLS = [
  'interface Point { x: number }\nconst p: Point = { x: 1 } as const; export type T<U> = U[]; (<T>(y: T): T => y)(p!)',
  'enum Colour { Red = 1, Green }\n@((c: any, _: any) => c) class A { constructor(private x: number) {} }\nnamespace N { export const y = 1 }',
];

for (const code of CELLS) toJavaScript(code, 'cell.ts');
writeCache();
