'use strict';

// Scripts whose compiled form V8 has kept in a file beside them, which saves reading and compiling them.

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

/** Where `prepare_cache.js` puts what it makes. */
const CACHE = path.join(__dirname, '..', 'cache');

/** Has V8's form of a script beside it; another version of V8 refuses that, and compiles the script anew. */
class CachedScript {
  #script;
  #kept;

  /** @param {string} file @param {{kept?: string, text?: string}} options where V8's form is; what is run if it is not all that is in the file */
  constructor(file, { kept = `${file}.v8`, text = fs.readFileSync(file, 'utf8') } = {}) {
    this.#kept = kept;
    const cachedData = fs.existsSync(kept) ? fs.readFileSync(kept) : undefined;
    this.#script = new vm.Script(text, { filename: file, cachedData });
  }

  /** The value of its last statement. */
  run() {
    return this.#script.runInThisContext({ displayErrors: false });
  }

  /** Whether V8 took what it had kept. */
  get isFresh() {
    return this.#script.cachedDataRejected === false;
  }

  /** Keeps it, with all functions that were called until now. */
  keep() {
    fs.writeFileSync(this.#kept, this.#script.createCachedData());
  }
}

/** A file that was prepared; null if it was not. */
function prepared(name) {
  const file = path.join(CACHE, name);
  return fs.existsSync(file) ? file : null;
}

module.exports = { CACHE, CachedScript, prepared };
