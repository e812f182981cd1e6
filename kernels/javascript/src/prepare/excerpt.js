'use strict';

// The part of a large program that some of its functions need. A ninth of TypeScript's compiler parses; the rest of its nine
// megabytes checks types, serves editors, and takes most of the time to load.

const acorn = require('acorn');

const { children, declaredNames, targets } = require('../cell/syntax_tree');

/**
 * The text of the statements that declare these names, and of all that they need.
 *
 * What declares nothing is left out unless it completes something that is needed (`((Parser) => …)(Parser || …)`,
 * `Version.zero = …`), or is matched by `kept`. What is `unused` is left out though it is mentioned.
 *
 * @param {acorn.Node[]} statements of one scope
 * @param {{names: string[], kept: RegExp, unused: string[]}} wanted
 */
function excerpt(code, statements, { names, kept, unused }) {
  const text = ({ start, end }) => code.slice(start, end);
  const parts = new Map();
  const add = (name, statement) => parts.set(name, [...(parts.get(name) ?? []), statement]);
  const always = [];
  for (const statement of statements) {
    const declared = statement.type === 'ExpressionStatement' ? completed(statement.expression) : declaredNames(statement);
    for (const name of declared) add(name, statement);
    if (declared.length === 0 && kept.test(text(statement))) always.push(statement);
  }
  const needed = new Set(always);
  const waiting = [...names, ...always.flatMap((statement) => [...references(statement)])];
  const seen = new Set(unused);
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (seen.has(name)) continue;
    seen.add(name);
    for (const statement of parts.get(name) ?? []) {
      if (needed.has(statement)) continue;
      needed.add(statement);
      waiting.push(...references(statement));
    }
  }
  const missing = names.find((name) => !parts.has(name));
  if (missing !== undefined) throw new Error(`nothing declares ${missing}`);
  return statements.filter((statement) => needed.has(statement)).map(text).join('\n');
}

/** What an expression adds to: `N` in `((M) => …)(N || (N = {}))`, in `N.x = …` and in `call(N, …)` with an object of functions. */
function completed(expression) {
  if (expression.type === 'AssignmentExpression' && expression.left.type === 'MemberExpression') {
    return [...targets(expression.left.object)].map(({ name }) => name);
  }
  if (expression.type !== 'CallExpression') return [];
  const [given] = expression.arguments;
  const isNamespace = expression.callee.type === 'ArrowFunctionExpression' && given?.type === 'LogicalExpression';
  if (isNamespace) return [given.left.name];
  const isExport = expression.callee.name === '__export';
  return isExport ? [given.name] : [];
}

/** Every name that may be meant by something outside; some are local after all, which does no harm. */
function* references(node) {
  if (node.type === 'Identifier') yield node.name;
  for (const child of children(node)) {
    const isName = (child === node.property || child === node.key) && !node.computed && !node.shorthand;
    if (!isName) yield* references(child);
  }
}

module.exports = { excerpt };
