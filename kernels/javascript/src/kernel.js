'use strict';

// The kernel between cells: requests in, executions run, all of it on the main thread and its event loop,
// where the timers and tasks of earlier cells go on meanwhile.

const { receiveMessageOnPort } = require('node:worker_threads');

const { Display } = require('./display');
const { Environment, InvalidEnvironment } = require('./environment');
const { clean, show } = require('./errors');
const { Execution } = require('./execution');
const { QUESTIONS } = require('./questions');
const { WORDS } = require('./shared_words');
const typescriptCompiler = require('./cell/typescript_compiler');

/** How Python calls these failures; the protocol is named after its. */
const FAILURES = { ENOENT: 'FileNotFoundError', EACCES: 'PermissionError', ENOTDIR: 'NotADirectoryError' };

/** One kernel, one peer. */
class Kernel {
  /** Names that cells declared as constants. */
  constants = new Set();
  /** Maps of cells in which places have moved, by file. */
  maps = new Map();
  environment = new Environment();
  #words;
  #execution = null;
  #serial = 0;
  #executions = 0;
  #carrier;
  #requests;

  constructor({ language, words, outlet, critical, carrier, requests, input, whenListening }) {
    this.language = language;
    this.#words = words;
    this.outlet = outlet;
    this.critical = critical;
    this.input = input;
    this.display = new Display(outlet);
    this.whenListening = whenListening;
    this.#carrier = carrier;
    this.#requests = requests;
  }

  /** Serves from now on. */
  start() {
    this.display.install();
    process.on('uncaughtException', (error) => this.#onUncaught(error, 'uncaughtException'));
    process.on('unhandledRejection', (reason) => this.#onUncaught(reason, 'unhandledRejection'));
    this.#carrier.on('message', (message) => this.#receive(message));
    // The parser is loaded while nobody waits for it.
    if (this.language === 'typescript') setImmediate(() => this.#preload());
  }

  #preload() {
    this.critical.enter();
    typescriptCompiler.loadParser();
    this.critical.leave();
  }

  /** The running execution is over, and has said so to the peer. */
  noteFinished() {
    this.#execution = null;
    Atomics.store(this.#words, WORDS.execution, 0);
  }

  #receive(message) {
    switch (message.type) {
      case 'request':
        this.handleRequests();
        break;
      case 'answer':
        this.input.take();
        break;
      case 'interrupt':
        this.#carrier.postMessage({ number: message.number });
        break;
      case 'settled':
        this.#afterInterrupt(message.execution);
        break;
      case 'gone':
        process.exit(0);
        break;
      default:
      // A probe is something to be ended, and nothing else.
    }
  }

  #afterInterrupt(meant) {
    this.critical.leave();
    clearAsyncStack();
    const isMeant = this.#execution !== null && meant === this.#serial;
    if (isMeant) this.#execution.interrupt();
    else if (process.listenerCount('SIGINT') > 1) process.emit('SIGINT', 'SIGINT', 2);
    // An interrupt may have ended us between a request's arrival and its handling.
    this.handleRequests();
  }

  /** Serves what the peer has asked for, until an execution keeps us. */
  handleRequests() {
    while (this.#execution === null) {
      this.critical.enter();
      const received = receiveMessageOnPort(this.#requests);
      if (received !== undefined) this.#handle(JSON.parse(received.message));
      // An execution leaves by itself, when its cell is ready to run.
      if (this.#execution === null) this.critical.leave();
      if (received === undefined) return;
    }
  }

  #handle(request) {
    switch (request.type) {
      case 'execute':
        this.#execute(request);
        break;
      case 'environment':
        this.#answer(request, () => this.environment.setLayer(request.layer, request.variables));
        break;
      case 'chdir':
        this.#answer(request, () => process.chdir(request.path));
        break;
      case 'shutdown':
        this.#answer(request, () => {});
        process.exit(0);
        break;
      default:
        if (isQuestion(request)) this.#answer(request, () => QUESTIONS[request.type](this, request));
        else this.#answer(request, () => refuse(`there is no request '${request.type}'`));
    }
  }

  #answer(request, action) {
    try {
      const answer = action();
      this.outlet.answer(request.id, { status: 'ok', ...(isQuestion(request) ? answer : {}) });
    } catch (error) {
      const isOurs = error instanceof InvalidEnvironment;
      const ename = isOurs ? error.name : (FAILURES[error.code] ?? (error.syscall ? 'OSError' : 'ValueError'));
      this.outlet.answer(request.id, { status: 'error', ename, evalue: error.message });
    }
  }

  #execute(request) {
    if (typeof request.id !== 'string' || typeof request.code !== 'string') {
      this.#answer(request, () => refuse('an execution needs a string as id and a string as code'));
      return;
    }
    this.whenListening();
    if (request.code.trim() !== '') this.#executions += 1;
    this.#serial += 1;
    Atomics.store(this.#words, WORDS.execution, this.#serial);
    this.#execution = new Execution(this, request, Math.max(this.#executions, 1));
    this.#execution.run();
  }

  #onUncaught(error, event) {
    // User code that listens itself has said what shall happen.
    if (process.listenerCount(event) > 1) return;
    if (this.#execution !== null) this.#execution.fail(error);
    else this.outlet.text('stderr', `Uncaught ${clean(show(error), this.maps)}\n`);
  }
}

function isQuestion({ type }) {
  return Object.hasOwn(QUESTIONS, type);
}

function refuse(reason) {
  throw new Error(reason);
}

/** An interrupt left the stack of asynchronous contexts as it was. Node.js empties it after a failure that somebody caught. */
function clearAsyncStack() {
  setImmediate(() => {
    try {
      process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null));
    } catch {
      // Domains, or the user, have a callback of their own. A stack that is too high does no harm but to its height.
      return;
    }
    throw new Error('this is caught by the callback');
  });
}

module.exports = { Kernel };
