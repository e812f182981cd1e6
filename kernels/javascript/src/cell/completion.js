'use strict';

// The value of a cell that runs inside of a function: what the same statements would be worth as a script.

const { isFunction, walk } = require('./syntax_tree');

/** The variable that holds the value. */
const VALUE = '__skep_value__';

const WITHOUT_VALUE = new Set([
  'VariableDeclaration',
  'FunctionDeclaration',
  'ClassDeclaration',
  'EmptyStatement',
  'DebuggerStatement',
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportDefaultDeclaration',
  'ExportAllDeclaration',
]);

const CONTROL = new Set([
  'IfStatement',
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'WhileStatement',
  'DoWhileStatement',
  'SwitchStatement',
  'TryStatement',
  'WithStatement',
]);

/** Makes the function return `{ value }`. */
function markCompletion(program, edits) {
  for (const statement of [...program.body].reverse()) {
    if (WITHOUT_VALUE.has(statement.type) || statement.directive !== undefined) continue;
    if (mark(statement, edits)) break;
  }
  edits.insert(program.end, `\n;return { value: ${VALUE} };`);
}

/** Notes every value inside of a statement; whether there is one in any case. */
function mark(statement, edits) {
  walk(statement, (node, ancestors) => {
    if (isFunction(node) || node.type === 'StaticBlock') return false;
    const around = ancestors.at(-1);
    if (around?.type === 'TryStatement' && around.finalizer === node) return false;
    if (node.type === 'ExpressionStatement') {
      edits.insert(node.start, `${VALUE} = (`);
      edits.insert(node.expression.end, ')');
      return false;
    }
    const isAmongOthers = !around || around.type === 'BlockStatement' || around.type === 'SwitchCase';
    // What came before does not count, whether or not something is evaluated inside.
    if (CONTROL.has(node.type) && isAmongOthers) edits.insert(node.start, `${VALUE} = void 0;`);
    return true;
  });
  return statement.type !== 'BlockStatement' && statement.type !== 'LabeledStatement';
}

module.exports = { VALUE, markCompletion };
