'use strict';

// Interrupts: how the carrier ends what the main thread is doing.
//
// The main thread is asked first; if it waits in its event loop, it answers at once. If it does not answer,
// V8's inspector ends whatever JavaScript it runs, in a cell, a callback or after an `await`. Only when
// that is over, and nothing more will be ended, the main thread is told that the matter is settled.

const { WORDS } = require('./shared_words');

/** How long an idle main thread may take to answer. */
const ANSWER_MILLISECONDS = 10;

/** How long the main thread may take to come back to its event loop after its JavaScript was ended. */
const RETURN_MILLISECONDS = 200;

/** How often a thread that must not be ended is looked at again. */
const PATIENCE_MILLISECONDS = 2;

/** How often the main thread is given something to run, for the end to take effect on. */
const PROBE_MILLISECONDS = 5;

/** Interrupts the main thread. */
class Ender {
  #words;
  #main;
  #number = 0;
  #execution = 0;
  #running = false;
  #answered = 0;
  #onAnswer = () => {};

  constructor(words, main) {
    this.#words = words;
    this.#main = main;
  }

  /** SIGINT has arrived. */
  async interrupt() {
    if (this.#running) return;
    this.#running = true;
    this.#number += 1;
    // What runs now is meant, or what is ended in the end; another that has begun by then is not.
    this.#execution = this.#currentExecution();
    let patience = ANSWER_MILLISECONDS;
    while (!(await this.#ask(patience))) {
      if (await this.#terminate()) patience = RETURN_MILLISECONDS;
      else patience = PATIENCE_MILLISECONDS;
    }
    this.#running = false;
    this.#main.postMessage({ type: 'settled', execution: this.#execution });
  }

  /** The main thread's answer. */
  receive(message) {
    this.#answered = message.number;
    this.#onAnswer();
  }

  #ask(milliseconds) {
    this.#main.postMessage({ type: 'interrupt', number: this.#number });
    return new Promise((resolve) => {
      const isAnswered = () => this.#answered === this.#number;
      const timer = setTimeout(() => resolve(isAnswered()), milliseconds);
      this.#onAnswer = () => {
        if (!isAnswered()) return;
        clearTimeout(timer);
        resolve(true);
      };
      this.#onAnswer();
    });
  }

  /** Ends what the main thread runs; false if it must not be ended now. */
  async #terminate() {
    Atomics.store(this.#words, WORDS.terminating, 1);
    const allowed = Atomics.load(this.#words, WORDS.critical) === 0;
    if (allowed) {
      // No execution begins or ends from here on until it is over.
      this.#execution = this.#currentExecution() || this.#execution;
      await this.#terminateNow();
    }
    Atomics.store(this.#words, WORDS.terminating, 0);
    return allowed;
  }

  #currentExecution() {
    return Atomics.load(this.#words, WORDS.execution);
  }

  async #terminateNow() {
    // Loaded when it is needed, which is seldom.
    const { Session } = require('node:inspector');
    const session = new Session();
    session.connectToMainThread();
    const probes = setInterval(() => this.#main.postMessage({ type: 'probe' }), PROBE_MILLISECONDS);
    await new Promise((resolve) => session.post('Runtime.terminateExecution', resolve));
    clearInterval(probes);
    session.disconnect();
  }
}

module.exports = { Ender };
