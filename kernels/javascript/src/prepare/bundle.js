'use strict';

// Makes one script of CommonJS modules: each file that has to be found, read and compiled costs about half a millisecond.

const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

const acorn = require('acorn');

const { walk } = require('../cell/syntax_tree');

const ROOT = path.join(__dirname, '..', '..');

/** What is run: `require` is that of Node.js, `root` the kernel's folder; returns what loads a module by its place in there. */
const BEGINNING = '(require, root) => {\nconst loaded = new Map();\nconst modules = {\n';
const END = `};
const load = (place) => {
  if (!loaded.has(place)) {
    const module = { exports: {} };
    loaded.set(place, module);
    const [run, places] = modules[place];
    const file = root + place;
    const requireHere = (specifier) => (places[specifier] === undefined ? require(specifier) : load(places[specifier]));
    run.call(module.exports, module.exports, requireHere, module, file, file.slice(0, file.lastIndexOf('/')));
  }
  return loaded.get(place).exports;
};
return load;
}`;

/**
 * The script for a module and all that it requires, but for what comes with Node.js.
 *
 * @param {string} entry a place below the kernel's folder
 */
function bundle(entry) {
  const parts = new Map();
  const add = (place) => {
    if (parts.has(place)) return;
    const file = path.join(ROOT, place);
    const text = fs.readFileSync(file, 'utf8');
    const code = place.endsWith('.json') ? `module.exports = ${text}` : text;
    const places = requiredBy(code, file);
    // In parentheses V8 compiles a function at once, so that it is part of what it keeps.
    parts.set(place, `[(function (exports, require, module, __filename, __dirname) {${code}\n}), ${JSON.stringify(places)}]`);
    for (const required of Object.values(places)) add(required);
  };
  add(entry);
  const modules = [...parts].map(([place, part]) => `${JSON.stringify(place)}: ${part},\n`);
  return BEGINNING + modules.join('') + END;
}

/** The places of what a module requires, by what it calls them. */
function requiredBy(code, file) {
  const { resolve } = createRequire(file);
  const places = {};
  walk(acorn.parse(code, { ecmaVersion: 'latest' }), ({ type, callee, arguments: given }) => {
    const isRequire = type === 'CallExpression' && callee.type === 'Identifier' && callee.name === 'require';
    const specifier = isRequire && given[0].type === 'Literal' ? given[0].value : 'node:';
    if (!specifier.startsWith('node:')) places[specifier] = path.relative(ROOT, resolve(specifier));
  });
  return places;
}

module.exports = { bundle };
