'use strict';

// Static imports, as calls: a cell is no module, but whoever writes one wants to write `import` in it.

const { VALUE } = require('./completion');

/** The function that imports for cells: specifier, attributes, names that must exist. */
const IMPORT = '__skep_import__';

/**
 * Removes static imports and says what does the same.
 *
 * @returns {{code: string, names: string[]}} statements, and what they assign to
 */
function importCalls(program, edits, lenient) {
  let code = '';
  const names = [];
  for (const statement of program.body) {
    const from = statement.source?.value;
    if (from === undefined) continue;
    const specifiers = statement.type === 'ImportDeclaration' ? statement.specifiers : [];
    if (statement.type === 'ImportDeclaration') edits.blank(statement.start, statement.end, ';');
    const wanted = specifiers.filter(({ type }) => type !== 'ImportNamespaceSpecifier').map(importedName);
    const expected = JSON.stringify(lenient ? [] : wanted);
    code += `${VALUE} = await ${IMPORT}(${JSON.stringify(from)}, ${attributes(statement)}, ${expected});`;
    for (const specifier of specifiers) {
      const isWhole = specifier.type === 'ImportNamespaceSpecifier';
      const member = isWhole ? '' : `[${JSON.stringify(importedName(specifier))}]`;
      code += `${specifier.local.name} = ${VALUE}${member};`;
      names.push(specifier.local.name);
    }
  }
  return { code: code === '' ? '' : `${code}${VALUE} = void 0;`, names };
}

function importedName({ type, imported }) {
  if (type === 'ImportDefaultSpecifier') return 'default';
  return imported.name ?? imported.value;
}

function attributes(statement) {
  const entries = (statement.attributes ?? []).map(({ key, value }) => [key.name ?? key.value, value.value]);
  return JSON.stringify(Object.fromEntries(entries));
}

module.exports = { IMPORT, importCalls };
