'use strict';

// Starts one thread of the kernel: from a single file that `prepare_cache.js` has made of its modules, or from them.

const path = require('node:path');
const { isMainThread, workerData } = require('node:worker_threads');

const { CachedScript, prepared } = require('./cached_script');

const part = isMainThread ? 'main' : workerData.part;
const bundle = prepared(`${part}.js`);
if (bundle === null) require(`./${part}`);
else new CachedScript(bundle).run()(require, path.dirname(__dirname) + path.sep)(`src/${part}.js`);
