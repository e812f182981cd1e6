'use strict';

// From the text of a cell, in either language, to something that can be run.

const vm = require('node:vm');

const { rewrite } = require('./rewrite');
const { CellSyntaxError } = require('./syntax_error');
const typescript = require('./typescript');

/**
 * @typedef {object} Cell
 * @property {vm.Script} script
 * @property {boolean} isAsync
 * @property {string[]} names
 * @property {string[]} constants
 * @property {{original(line: number, column: number): [number, number]}|null} map from its places to those of the code
 */

/**
 * @param {string} code
 * @param {{language: string, file: string, constants: Set<string>}} options
 * @returns {Cell}
 * @throws {CellSyntaxError}
 */
function compileCell(code, { language, file, constants }) {
  const { rewritten, map } =
    language === 'typescript'
      ? fromTypeScript(code, file, constants)
      : fromJavaScript(code, file, constants);
  return { ...rewritten, map: chained(rewritten.columns, map), script: engineScript(rewritten, file) };
}

/** JavaScript, or TypeScript for want of better: its syntax is welcome in both languages. */
function fromJavaScript(code, file, constants) {
  try {
    return { rewritten: rewritten(code, { constants }), map: null };
  } catch (error) {
    if (!(error instanceof CellSyntaxError)) throw error;
    try {
      return fromTypeScript(code, file, constants);
    } catch {
      throw error;
    }
  }
}

function fromTypeScript(code, file, constants) {
  const { code: javascript, map } = typescript.toJavaScript(code, file);
  return { rewritten: rewritten(javascript, { constants, lenientImports: true }), map };
}

function rewritten(code, options) {
  try {
    return rewrite(code, options);
  } catch (error) {
    throw error.loc ? CellSyntaxError.fromAcorn(error) : error;
  }
}

function engineScript({ source, columnOffset }, filename) {
  try {
    return new vm.Script(source, {
      filename,
      columnOffset,
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    });
  } catch (error) {
    // What the parser knows and this version of Node.js does not.
    throw error instanceof SyntaxError ? CellSyntaxError.fromEngine(error, filename) : error;
  }
}

function chained(columns, map) {
  if (columns === null || map === null) return columns ?? map;
  return { original: (line, column) => map.original(...columns.original(line, column)) };
}

module.exports = { compileCell };
