'use strict';

// `process.stdout`, `process.stderr` and `console` of user code.

const childProcess = require('node:child_process');
const { Console } = require('node:console');
const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const { Writable } = require('node:stream');
const { StringDecoder } = require('node:string_decoder');

const DESCRIPTORS = { stdout: 1, stderr: 2 };

/** A stream that has sent what it is given before `write` returns. */
class OutStream extends Writable {
  #name;
  #outlet;
  #decoder = new StringDecoder('utf8');

  constructor(name, outlet) {
    super();
    this.#name = name;
    this.#outlet = outlet;
    this.fd = DESCRIPTORS[name];
    this._type = 'pipe';
    this._isStdio = true;
  }

  /** Past the queue of `Writable`, which an interrupt in the middle of a write would leave blocked for ever. */
  write(chunk, encoding, callback) {
    const done = typeof encoding === 'function' ? encoding : callback;
    const bytes = typeof chunk === 'string' ? encodedOrNull(chunk, encoding) : bytesOf(chunk);
    const text = bytes === null ? chunk : this.#decoder.write(bytes);
    if (text !== '') this.#outlet.text(this.#name, text);
    if (typeof done === 'function') process.nextTick(done);
    return true;
  }

  /** Like the streams it stands for, it cannot be closed. */
  end(chunk, encoding, callback) {
    if (chunk !== undefined && typeof chunk !== 'function') this.write(chunk, encoding);
    const done = [chunk, encoding, callback].find((argument) => typeof argument === 'function');
    if (done) process.nextTick(done);
    return this;
  }

  destroy() {
    return this;
  }
}

function bytesOf(chunk) {
  if (chunk instanceof Uint8Array) return chunk;
  const problem = new TypeError(`The "chunk" argument must be a string or bytes, not ${typeof chunk}`);
  throw Object.assign(problem, { code: 'ERR_INVALID_ARG_TYPE' });
}

/** The bytes of text in an encoding; null for what is text already. */
function encodedOrNull(text, encoding) {
  const isText = typeof encoding !== 'string' || /^utf-?8$/i.test(encoding);
  return isText ? null : Buffer.from(text, encoding);
}

/** Puts our streams where user code, and Node.js itself, look for them. */
function replaceStreams(outlet) {
  const streams = {};
  for (const name of Object.keys(DESCRIPTORS)) {
    streams[name] = new OutStream(name, outlet);
    Object.defineProperty(process, name, { value: streams[name], configurable: true, enumerable: true, writable: true });
  }
  // The methods of the global console would also keep what they are given for a debugger.
  const replacement = new Console({ ...streams, colorMode: false });
  for (const [name, method] of Object.entries(replacement)) {
    if (typeof method === 'function') console[name] = method;
  }
}

/** Keeps the order between what the kernel writes and what goes to the descriptors past it. */
function flushBeforeOthers(flush) {
  const before = (object, name, isConcerned = () => true) => {
    const original = object[name];
    const wrapper = {
      [name](...values) {
        if (isConcerned(...values)) flush();
        return Reflect.apply(original, this, values);
      },
    }[name];
    object[name] = Object.assign(wrapper, original);
  };
  const isStandard = (descriptor) => descriptor === 1 || descriptor === 2;
  for (const name of ['write', 'writeSync', 'writev', 'writevSync', 'writeFileSync', 'appendFileSync']) {
    before(fs, name, isStandard);
  }
  for (const name of ['spawnSync', 'execSync', 'execFileSync']) before(childProcess, name);
  before(childProcess.ChildProcess.prototype, 'spawn');
  syncBuiltinESMExports();
  flushBeforeDeath(flush);
}

/** A process that kills itself shall be heard to the end. */
function flushBeforeDeath(flush) {
  const { abort, kill, reallyExit } = process;
  process.abort = function () {
    flush();
    abort.call(process);
  };
  process.kill = function (pid, signal) {
    if (pid === process.pid) flush();
    return kill.call(process, pid, signal);
  };
  process.reallyExit = function (code) {
    flush();
    reallyExit.call(process, code);
  };
}

module.exports = { flushBeforeOthers, replaceStreams };
