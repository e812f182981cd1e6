'use strict';

// Loads TypeScript's compiler, from V8's code cache if `npm run prepare-cache` has made one: it takes a third of
// the time then.

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const { loadModule } = require('./load_module');

const COMPILER = require.resolve('typescript');
const BLANKING = path.join(path.dirname(COMPILER), '..', '..', 'ts-blank-space', 'out', 'index.js');
const CACHE = path.join(__dirname, '..', '..', 'cache', 'typescript');

let script = null;
let loaded = null;

/** The compiler, and the function that blanks types out. */
function load() {
  loaded ??= loadNow();
  return loaded;
}

function loadNow() {
  const module = new Module(COMPILER);
  module.filename = COMPILER;
  // What V8 made for another version of itself it refuses, and compiles anew.
  const cachedData = fs.existsSync(CACHE) ? fs.readFileSync(CACHE) : undefined;
  script = new vm.Script(Module.wrap(fs.readFileSync(COMPILER, 'utf8')), { filename: COMPILER, cachedData });
  const run = script.runInThisContext();
  run.call(module.exports, module.exports, Module.createRequire(COMPILER), module, COMPILER, path.dirname(COMPILER));
  const compiler = module.exports;
  const { blankSourceFile } = loadModule(BLANKING, { typescript: compiler });
  return { compiler, blank: blankSourceFile };
}

/** Writes the cache, with all functions that were used until now. */
function writeCache() {
  fs.mkdirSync(path.dirname(CACHE), { recursive: true });
  fs.writeFileSync(CACHE, script.createCachedData());
}

module.exports = { load, writeCache };
