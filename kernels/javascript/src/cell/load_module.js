'use strict';

// Loads a small ES module as if it were CommonJS. Node.js 20 can only import it asynchronously, and reads all of
// TypeScript's nine megabytes on the way to find out what they export, which takes seconds.

const fs = require('node:fs');
const { createRequire } = require('node:module');
const vm = require('node:vm');

const acorn = require('acorn');

const { Edits } = require('./edits');

/**
 * What a module exports. It may import defaults only, and export functions, classes and a default.
 *
 * @param {string} file
 * @param {Record<string, unknown>} known modules that need not be loaded
 */
function loadModule(file, known) {
  const run = vm.compileFunction(functionBody(file), ['load', 'exports'], { filename: file });
  const { resolve } = createRequire(file);
  return run((specifier) => known[specifier] ?? loadModule(resolve(specifier), known).default, {});
}

/** The body of a function of `load`, which gives it what it imports, and `exports`, to which it adds what it exports. */
function functionBody(file) {
  const code = fs.readFileSync(file, 'utf8');
  const edits = new Edits(code);
  const exported = [];
  for (const statement of acorn.parse(code, { ecmaVersion: 'latest', sourceType: 'module' }).body) {
    if (statement.type === 'ImportDeclaration') {
      const [{ type, local }] = statement.specifiers;
      if (type !== 'ImportDefaultSpecifier') throw new Error(`${file} imports more than defaults`);
      edits.replace(statement.start, statement.end, `const ${local.name} = load(${statement.source.raw});`);
    } else if (statement.type === 'ExportNamedDeclaration') {
      edits.blank(statement.start, statement.declaration.start);
      exported.push(statement.declaration.id.name);
    } else if (statement.type === 'ExportDefaultDeclaration') {
      const { declaration } = statement;
      edits.blank(statement.start, declaration.start, declaration.id ? '' : 'exports.default =');
      if (declaration.id) exported.push(`default: ${declaration.id.name}`);
    }
  }
  return `${edits.applied().text}\nreturn Object.assign(exports, { ${exported.join(', ')} });`;
}

module.exports = { functionBody, loadModule };
