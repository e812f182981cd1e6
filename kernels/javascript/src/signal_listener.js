'use strict';

// The thread that hears SIGINT, which Node.js otherwise delivers only to an idle event loop.
//
// It sleeps inside of a script that SIGINT may break. Between two sleeps nothing would keep the signal from
// killing the process, so the sleep is wrapped into more such scripts than signals can arrive meanwhile.

const vm = require('node:vm');
const { workerData } = require('node:worker_threads');

const { WORDS, views } = require('./shared_words');

const DEPTH = 16;

const { memory, signals } = workerData;
const { words } = views(memory);
const nothing = new Int32Array(new SharedArrayBuffer(4));

let depth = 0;

function listen() {
  if (depth === DEPTH) {
    Atomics.store(words, WORDS.listening, 1);
    Atomics.notify(words, WORDS.listening);
    Atomics.wait(nothing, 0, 0);
    return;
  }
  const here = depth;
  for (;;) {
    try {
      depth = here + 1;
      script.runInThisContext({ breakOnSigint: true });
    } catch {
      signals.postMessage(null);
    }
  }
}

globalThis.listen = listen;
const script = new vm.Script('listen()');
listen();
