'use strict';

// Assignments to constants of the top level. Those are properties of the global object after the rewriting, so
// that a later cell may declare them anew; what assigns to them is found here and made to throw as it should.

const { declaredNames, isFunction, targets, varDeclarations, walk } = require('./syntax_tree');

/** The object through which such assignments go; see `constantsGuard`. */
const GUARD = '__skep_constants__';

/** Redirects every assignment to one of `names` that no inner scope shadows. */
function guardConstants(program, names, edits) {
  if (names.size === 0) return;
  walk(program, (node, ancestors) => {
    for (const { identifier, shorthand } of assigned(node)) {
      if (!names.has(identifier.name)) continue;
      if ([...ancestors, node].some((scope) => declares(scope, identifier.name, program))) continue;
      const prefix = shorthand ? `${identifier.name}: ` : '';
      edits.insert(identifier.start, `${prefix}${GUARD}.`);
    }
  });
}

/** The identifiers to which a node itself assigns. */
function* assigned(node) {
  let pattern = null;
  if (node.type === 'AssignmentExpression') pattern = node.left;
  if (node.type === 'UpdateExpression') pattern = node.argument;
  if (node.type === 'ForInStatement' || node.type === 'ForOfStatement') {
    pattern = node.left.type === 'VariableDeclaration' ? null : node.left;
  }
  if (pattern === null) return;
  const shorthands = new Set();
  walk(pattern, (inner) => {
    if (inner.type === 'Property' && inner.shorthand) {
      shorthands.add(inner.value.type === 'AssignmentPattern' ? inner.value.left : inner.value);
    }
  });
  for (const identifier of targets(pattern)) yield { identifier, shorthand: shorthands.has(identifier) };
}

/** Whether a scope below the program declares the name. */
function declares(scope, name, program) {
  if (scope === program) return false;
  if (isFunction(scope)) return functionDeclares(scope, name);
  switch (scope.type) {
    case 'BlockStatement':
    case 'StaticBlock':
      return scope.body.some((statement) => isLexical(statement) && declaredNames(statement).includes(name));
    case 'SwitchStatement':
      return scope.cases.some(({ consequent }) =>
        consequent.some((statement) => isLexical(statement) && declaredNames(statement).includes(name)),
      );
    case 'ForStatement':
      return scope.init?.type === 'VariableDeclaration' && isLexical(scope.init) && declaredNames(scope.init).includes(name);
    case 'ForInStatement':
    case 'ForOfStatement':
      return isLexical(scope.left) && declaredNames(scope.left).includes(name);
    case 'CatchClause':
      return [...targets(scope.param)].some((identifier) => identifier.name === name);
    case 'ClassExpression':
    case 'ClassDeclaration':
      return false;
    default:
      return false;
  }
}

function functionDeclares(scope, name) {
  const parameters = scope.params.flatMap((parameter) => [...targets(parameter)]);
  if (parameters.some((identifier) => identifier.name === name)) return true;
  if (scope.type === 'FunctionExpression' && scope.id?.name === name) return true;
  return varDeclarations(scope.body).some(({ declaration }) => declaredNames(declaration).includes(name));
}

function isLexical(statement) {
  return !(statement.type === 'VariableDeclaration' && statement.kind === 'var');
}

/** What `GUARD` names: reads go to the global object, writes throw. */
function constantsGuard() {
  return new Proxy(Object.create(null), {
    get: (_, name) => globalThis[name],
    set() {
      throw new TypeError('Assignment to constant variable.');
    },
  });
}

module.exports = { GUARD, constantsGuard, guardConstants };
