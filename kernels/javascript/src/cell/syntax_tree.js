'use strict';

// Questions to an ESTree that any rewriting has to ask.

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);

/** Whether the node is a function of any kind. */
function isFunction(node) {
  return FUNCTIONS.has(node.type);
}

/** The nodes directly below a node, in the order of their fields. */
function* children(node) {
  for (const key in node) {
    const value = node[key];
    if (Array.isArray(value)) {
      for (const item of value) if (item !== null && typeof item?.type === 'string') yield item;
    } else if (value !== null && typeof value?.type === 'string') {
      yield value;
    }
  }
}

/**
 * Visits a node and those below it. `ancestors` are outermost first.
 *
 * @param {(node, ancestors) => boolean|void} visit returns false to stay out of what is below
 */
function walk(node, visit, ancestors = []) {
  if (visit(node, ancestors) === false) return;
  ancestors.push(node);
  for (const child of children(node)) walk(child, visit, ancestors);
  ancestors.pop();
}

/** The identifiers that a pattern binds or assigns to. */
function* targets(pattern) {
  switch (pattern?.type) {
    case 'Identifier':
      yield pattern;
      break;
    case 'ObjectPattern':
      for (const property of pattern.properties) yield* targets(property.value ?? property.argument);
      break;
    case 'ArrayPattern':
      for (const element of pattern.elements) yield* targets(element);
      break;
    case 'AssignmentPattern':
      yield* targets(pattern.left);
      break;
    case 'RestElement':
      yield* targets(pattern.argument);
      break;
    default:
  }
}

/** The names that a declaration of variables, a class or a function declares. */
function declaredNames(declaration) {
  if (declaration.type === 'VariableDeclaration') {
    return declaration.declarations.flatMap(({ id }) => [...targets(id)].map(({ name }) => name));
  }
  const isNamed = declaration.type === 'FunctionDeclaration' || declaration.type === 'ClassDeclaration';
  return isNamed && declaration.id ? [declaration.id.name] : [];
}

/** The `var` declarations that belong to the function or program around `node`, with their parents. */
function varDeclarations(node) {
  const found = [];
  walk(node, (inner, ancestors) => {
    if (inner !== node && isFunction(inner)) return false;
    if (inner.type === 'StaticBlock') return false;
    if (inner.type === 'VariableDeclaration' && inner.kind === 'var') {
      found.push({ declaration: inner, parent: ancestors.at(-1) });
    }
    return true;
  });
  return found;
}

module.exports = { children, declaredNames, isFunction, targets, varDeclarations, walk };
