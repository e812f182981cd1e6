'use strict';

// From a cell to a script.
//
// All that a cell declares at its top level becomes a property of the global object, so that later cells see
// it and may declare it anew. A cell that awaits, or imports, becomes the body of an async function.
// Lines stay where they are, and so do columns in nearly all cases.

const acorn = require('acorn');

const { VALUE, markCompletion } = require('./completion');
const { guardConstants } = require('./constants');
const { Edits } = require('./edits');
const { importCalls } = require('./imports');
const { declaredNames, isFunction, varDeclarations, walk } = require('./syntax_tree');

const PREFIX = '(async () => {';
const SUFFIX = '\n})()';
const META = '__skep_import_meta__';
const BLOCKS = new Set(['Program', 'BlockStatement', 'SwitchCase', 'StaticBlock']);

/** Reads JavaScript; throws acorn's SyntaxError. */
function parse(code) {
  return acorn.parse(code, {
    ecmaVersion: 'latest',
    sourceType: 'script',
    allowAwaitOutsideFunction: true,
    allowImportExportEverywhere: true,
    allowHashBang: true,
  });
}

/**
 * @typedef {object} Script
 * @property {string} source
 * @property {number} columnOffset what stands before the first line
 * @property {import('./edits').Columns|null} columns where they came from, if they have moved
 * @property {boolean} isAsync whether the script's value is a promise of `{ value }`
 * @property {string[]} names what must be assignable on the global object
 * @property {string[]} constants those that must not be assigned to afterwards
 */

/**
 * @param {string} code JavaScript
 * @param {{constants?: Iterable<string>, lenientImports?: boolean}} options what earlier cells declared as
 *   constants; whether a name that a module lacks may have been a type
 * @returns {Script}
 */
function rewrite(code, { constants = [], lenientImports = false } = {}) {
  const program = parse(code);
  const edits = new Edits(code);
  const imports = importCalls(program, edits, lenientImports);
  stripExports(program, edits);
  replaceImportMeta(program, edits);
  const statements = program.body.map(exported).filter((statement) => statement !== null);
  const vars = varDeclarations(program);
  const own = statements.filter(({ type, kind }) => type === 'VariableDeclaration' && kind === 'const').flatMap(declaredNames);
  const names = [...statements, ...vars.map(({ declaration }) => declaration)].flatMap(declaredNames);
  const known = new Set(constants);
  for (const name of [...names, ...imports.names]) known.delete(name);
  const isAsync = imports.code !== '' || awaits(program);
  let prefix = '';
  if (isAsync) prefix = rewriteForFunction({ program, statements, vars, imports, edits });
  else rewriteForScript(statements, edits);
  // Last, because what is inserted before an identifier must stand directly before it.
  guardConstants(program, new Set([...known, ...own]), edits);
  const { text: body, columns } = edits.applied();
  return {
    source: isAsync ? prefix + body + SUFFIX : body,
    columnOffset: -prefix.length,
    columns,
    isAsync,
    names: [...new Set([...names, ...imports.names])],
    constants: own,
  };
}

/** The declaration inside of an export; null for what declares and does nothing. */
function exported(statement) {
  switch (statement.type) {
    case 'ExportNamedDeclaration':
    case 'ExportDefaultDeclaration':
      return statement.declaration ?? null;
    case 'ExportAllDeclaration':
    case 'ImportDeclaration':
      return null;
    default:
      return statement;
  }
}

function stripExports(program, edits) {
  for (const statement of program.body) {
    if (statement.type === 'ExportNamedDeclaration' && statement.declaration) {
      edits.blank(statement.start, statement.declaration.start, ';');
    } else if (statement.type === 'ExportDefaultDeclaration') {
      const { declaration } = statement;
      const isNamed = declaration.id && declaration.type.endsWith('Declaration');
      edits.blank(statement.start, declaration.start, isNamed ? ';' : ';(');
      if (!isNamed) edits.insert(declaration.end, ')');
    } else if (statement.type.startsWith('Export')) {
      edits.blank(statement.start, statement.end, ';');
    }
  }
}

function replaceImportMeta(program, edits) {
  walk(program, ({ type, meta, start, end }) => {
    if (type === 'MetaProperty' && meta.name === 'import') edits.replace(start, end, META);
  });
}

function awaits(program) {
  let found = false;
  walk(program, (node) => {
    if (found || isFunction(node)) return false;
    if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) found = true;
    return true;
  });
  return found;
}

/** In a script `var` makes a property of the global object already. */
function rewriteForScript(statements, edits) {
  for (const statement of statements) {
    if (statement.type === 'VariableDeclaration' && (statement.kind === 'let' || statement.kind === 'const')) {
      edits.overwrite(statement.start, statement.start + statement.kind.length, 'var');
      resetUninitialised(statement, edits);
    } else if (statement.type === 'ClassDeclaration' && statement.id) {
      edits.insert(statement.start, `var ${statement.id.name} = `);
      edits.insert(statement.end, ';');
    }
  }
}

/** `let x;` makes x undefined, even if an earlier cell had one. */
function resetUninitialised(declaration, edits) {
  for (const { id, init } of declaration.declarations) {
    if (init === null) edits.insert(id.end, ' = void 0');
  }
}

/** In a function, declarations become assignments to what is global. Returns what stands before the first line. */
function rewriteForFunction({ program, statements, vars, imports, edits }) {
  const functions = statements.filter(({ type, id }) => type === 'FunctionDeclaration' && id);
  const hoisted = functions.map(({ id: { name } }) => `globalThis.${name} = ${name};`);
  const beginning = `let ${VALUE};${hoisted.join('')}${imports.code}`;
  const directives = program.body.filter(({ directive }) => directive !== undefined);
  if (directives.length > 0) edits.insert(directives.at(-1).end, `;${beginning}`);
  for (const statement of statements) {
    if (statement.type === 'VariableDeclaration' && (statement.kind === 'let' || statement.kind === 'const')) {
      resetUninitialised(statement, edits);
      assignInstead(statement, ';', edits);
    } else if (statement.type === 'ClassDeclaration' && statement.id) {
      edits.insert(statement.start, `;${statement.id.name} = `);
      edits.insert(statement.end, ';');
    }
  }
  for (const { declaration, parent } of vars) {
    assignInstead(declaration, BLOCKS.has(parent.type) || parent.type.startsWith('Export') ? ';' : '', edits);
  }
  markCompletion(program, edits);
  return directives.length > 0 ? PREFIX : PREFIX + beginning;
}

function assignInstead(declaration, separator, edits) {
  edits.overwrite(declaration.start, declaration.start + declaration.kind.length, separator);
  for (const { id, init } of declaration.declarations) {
    if (id.type === 'ObjectPattern' && init) {
      edits.insert(id.start, '(');
      edits.insert(init.end, ')');
    }
  }
}

module.exports = { META, parse, rewrite };
