'use strict';

const { types } = require('node:util');

const { bundleOf } = require('./bundles');
const { compileCell } = require('./cell/compile');
const { CellSyntaxError } = require('./cell/syntax_error');
const { InvalidEnvironment } = require('./environment');
const { describe } = require('./errors');
const { makeAssignable } = require('./modules');

const INTERRUPTED = { kind: 'interrupted', name: 'KeyboardInterrupt', value: '', traceback: ['KeyboardInterrupt'] };

/** One `execute` request, from its acceptance to idle. */
class Execution {
  #kernel;
  #request;
  #count;
  #saved = new Map();
  #isOver = false;

  constructor(kernel, request, count) {
    this.#kernel = kernel;
    this.#request = request;
    this.#count = count;
  }

  /** Runs the cell. The main thread is in its critical section, and leaves it for user code only. */
  async run() {
    const { outlet, environment } = this.#kernel;
    outlet.started(this.#request.id, this.#count);
    try {
      this.#saved = environment.enterExecution(this.#request.env ?? {});
      const cell = this.#compile();
      if (this.#request.allow_stdin) this.#kernel.input.allow();
      this.#kernel.critical.leave();
      this.#finish(null, await this.#evaluate(cell));
    } catch (error) {
      this.#finish(this.#describe(error));
    }
  }

  /** SIGINT has ended what ran, or what was awaited. */
  interrupt() {
    this.#finish(INTERRUPTED);
  }

  /** Something failed that nobody awaits: Node.js would end the program for it. */
  fail(error) {
    this.#finish(this.#describe(error));
  }

  #compile() {
    const { constants, language } = this.#kernel;
    const file = `cell-${this.#count}.${language === 'typescript' ? 'ts' : 'js'}`;
    const cell = compileCell(this.#request.code, { language, file, constants });
    for (const name of cell.names) constants.delete(name);
    for (const name of cell.constants) constants.add(name);
    if (cell.map !== null) this.#kernel.maps.set(file, cell.map);
    makeAssignable(cell.names);
    return cell;
  }

  /** The representations of the cell's value; null for none. */
  async #evaluate(cell) {
    const { display } = this.#kernel;
    display.begin();
    let value = cell.script.runInThisContext({ displayErrors: false });
    if (cell.isAsync) ({ value } = await value);
    if (types.isPromise(value)) value = await value;
    if (display.held !== null) value = await display.held;
    // What the cell has rejected and nobody handles is known after this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    if (display.result !== null) return display.result;
    return value === undefined ? null : bundleOf(value);
  }

  #describe(error) {
    if (error instanceof InvalidEnvironment) {
      return { kind: 'request', name: error.name, value: error.message, traceback: [] };
    }
    if (error instanceof CellSyntaxError) {
      const file = `cell-${this.#count}.${this.#kernel.language === 'typescript' ? 'ts' : 'js'}`;
      return error.describe(this.#request.code, file);
    }
    return describe(error, this.#kernel.maps);
  }

  #finish(failure, bundle = null) {
    const { critical, environment, outlet } = this.#kernel;
    critical.enter();
    if (this.#isOver) {
      critical.leave();
      return;
    }
    if (failure !== null) outlet.error(failure);
    else if (bundle !== null) outlet.result(this.#count, bundle);
    environment.leaveExecution(this.#saved);
    this.#kernel.input.end();
    this.#isOver = true;
    outlet.finished({
      status: failure === null ? 'ok' : 'error',
      execution_count: this.#count,
      payload: [],
      exiting: false,
    });
    this.#kernel.noteFinished();
    critical.leave();
    this.#kernel.handleRequests();
  }
}

module.exports = { Execution };
