'use strict';

// Loads TypeScript's compiler: for most cells only the part of it that parses, which `prepare_cache.js` has cut out.

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');

const { CACHE, CachedScript, prepared } = require('../cached_script');

const COMPILER = path.join(__dirname, '..', '..', 'node_modules', 'typescript', 'lib', 'typescript.js');

const scripts = new Set();
let parser = null;
let compiler = null;

/** What parses, and the function that blanks types out. */
function loadParser() {
  parser ??= parserOf(prepared('typescript_parser.js'));
  return parser;
}

function parserOf(file) {
  if (file !== null) return run(new CachedScript(file));
  const { loadModule } = require('./load_module');
  const typescript = loadCompiler();
  const { blankSourceFile: blank } = loadModule(BLANKING, { typescript });
  return { typescript, blank };
}

/** Where the function that blanks types out comes from. */
const BLANKING = path.join(path.dirname(COMPILER), '..', '..', 'ts-blank-space', 'out', 'index.js');

/** All of the compiler. */
function loadCompiler() {
  compiler ??= compilerOf(COMPILER);
  return compiler;
}

function compilerOf(file) {
  const module = new Module(file);
  module.filename = file;
  const text = Module.wrap(fs.readFileSync(file, 'utf8'));
  const wrapped = run(new CachedScript(file, { text, kept: path.join(CACHE, 'typescript.v8') }));
  wrapped.call(module.exports, module.exports, Module.createRequire(file), module, file, path.dirname(file));
  return module.exports;
}

function run(script) {
  scripts.add(script);
  return script.run();
}

/** Has V8 keep what was loaded, with all functions that were used until now. */
function keep() {
  for (const script of scripts) script.keep();
}

module.exports = { BLANKING, COMPILER, keep, loadCompiler, loadParser };
