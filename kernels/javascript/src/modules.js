'use strict';

// What cells find beside the globals of Node.js: `require` and `import` as of a file in the working directory.

const Module = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const vm = require('node:vm');

const { GUARD, constantsGuard } = require('./cell/constants');
const { IMPORT } = require('./cell/imports');
const { META } = require('./cell/rewrite');

/** A file that needs not exist, in the directory where cells look for modules. */
function placeOfCells() {
  return path.join(process.cwd(), 'cell.js');
}

/** A `require` that follows changes of the working directory. */
function movingRequire() {
  let place = null;
  let current = null;
  const here = () => {
    if (placeOfCells() !== place) {
      place = placeOfCells();
      current = Module.createRequire(place);
    }
    return current;
  };
  const require = (id) => here()(id);
  require.resolve = (request, options) => here().resolve(request, options);
  require.resolve.paths = (request) => here().resolve.paths(request);
  require.main = undefined;
  Object.defineProperty(require, 'cache', { get: () => here().cache, enumerable: true });
  Object.defineProperty(require, 'extensions', { get: () => here().extensions, enumerable: true });
  return require;
}

/** Imports for the static imports of cells. */
function importer() {
  const dynamic = new vm.Script('(specifier, options) => import(specifier, options)', {
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }).runInThisContext();
  return async (specifier, attributes, names) => {
    const options = Object.keys(attributes).length > 0 ? { with: attributes } : undefined;
    const module = await dynamic(specifier, options);
    const missing = names.find((name) => !(name in module));
    if (missing !== undefined) {
      throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
    }
    return module;
  };
}

/** The file that a cell is from: whoever runs one says so by `__filename`. */
function fileOfCells() {
  const { __filename: file } = globalThis;
  return typeof file === 'string' && path.isAbsolute(file) ? file : placeOfCells();
}

const importMeta = {
  get url() {
    return pathToFileURL(fileOfCells()).href;
  },
  get filename() {
    return fileOfCells();
  },
  get dirname() {
    return path.dirname(fileOfCells());
  },
  resolve(specifier) {
    const found = Module.createRequire(placeOfCells()).resolve(specifier);
    return path.isAbsolute(found) ? pathToFileURL(found).href : found;
  },
};

function define(name, descriptor) {
  Object.defineProperty(globalThis, name, { configurable: true, ...descriptor });
}

/** Gives cells their globals. */
function installGlobals() {
  const module = new Module('<cell>');
  module.paths = Module._nodeModulePaths(process.cwd());
  const values = {
    require: movingRequire(),
    module,
    exports: module.exports,
    [IMPORT]: importer(),
    [META]: importMeta,
    [GUARD]: constantsGuard(),
  };
  for (const [name, value] of Object.entries(values)) define(name, { value, writable: true });
  for (const [name, get] of [
    ['__filename', placeOfCells],
    ['__dirname', () => process.cwd()],
  ]) {
    define(name, { get, set: (value) => define(name, { value, writable: true }) });
  }
}

/** Makes names assignable: some globals of Node.js can only be read, and strict code needs them to exist. */
function makeAssignable(names) {
  for (const name of names) {
    const property = Object.getOwnPropertyDescriptor(globalThis, name);
    if (property?.writable || property?.configurable === false) continue;
    define(name, { value: undefined, writable: true, enumerable: true });
  }
}

module.exports = { installGlobals, makeAssignable };
