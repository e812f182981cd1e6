'use strict';

// Lines that a cell asks the peer for: `prompt` and `process.stdin`, while a cell runs whose caller answers.

const { Readable } = require('node:stream');
const { receiveMessageOnPort } = require('node:worker_threads');

const { WORDS } = require('./shared_words');

/** How long `prompt` waits before an interrupt can end it. */
const WAIT_MILLISECONDS = 100;

/** Asks the peer, and gives its answers to whoever asked. */
class Input {
  #outlet;
  #words;
  #answers;
  #asked = 0;
  /** What is done with the answer to each question. */
  #waiting = new Map();
  #stdin = Object.getOwnPropertyDescriptor(process, 'stdin');
  #stream = null;
  #prompt = (message = 'Prompt', preset = '') => this.#askNow(String(message)) ?? (preset === '' ? null : String(preset));

  constructor({ outlet, words, answers }) {
    this.#outlet = outlet;
    this.#words = words;
    this.#answers = answers;
  }

  /** A cell begins that may ask. */
  allow() {
    const stream = new Lines((whenAnswered) => this.#ask('', whenAnswered));
    this.#stream = stream;
    Object.defineProperty(process, 'stdin', { get: () => stream, configurable: true, enumerable: true });
    if ('prompt' in globalThis) return;
    Object.defineProperty(globalThis, 'prompt', { value: this.#prompt, configurable: true, writable: true });
  }

  /** The cell is over, and with it all that it has asked. */
  end() {
    if (this.#stream === null) return;
    this.#waiting.clear();
    Object.defineProperty(process, 'stdin', this.#stdin);
    if (globalThis.prompt === this.#prompt) delete globalThis.prompt;
    this.#stream.destroy();
    this.#stream = null;
  }

  /** Hands out the answers that have come. Those that nobody waits for are late. */
  take() {
    for (;;) {
      const { message } = receiveMessageOnPort(this.#answers) ?? {};
      if (message === undefined) return;
      const whenAnswered = this.#waiting.get(message.parent);
      this.#waiting.delete(message.parent);
      whenAnswered?.(message.value);
    }
  }

  #ask(prompt, whenAnswered) {
    this.#asked += 1;
    const id = `i${this.#asked}`;
    this.#waiting.set(id, whenAnswered);
    this.#outlet.inputRequest(id, prompt);
  }

  #askNow(prompt) {
    let answer;
    this.#ask(prompt, (value) => (answer = value));
    for (;;) {
      const seen = Atomics.load(this.#words, WORDS.answers);
      this.take();
      if (answer !== undefined) return answer;
      if (Atomics.load(this.#words, WORDS.broken)) return null;
      Atomics.wait(this.#words, WORDS.answers, seen, WAIT_MILLISECONDS);
    }
  }
}

/** Standard input: each line is asked for when somebody reads. */
class Lines extends Readable {
  #ask;
  #isWanted = false;

  constructor(ask) {
    // No line is asked for ahead.
    super({ highWaterMark: 0 });
    this.#ask = ask;
    this.fd = 0;
    this.on('resume', () => this.#askSoon());
  }

  _read() {
    this.#isWanted = true;
    this.#askSoon();
  }

  /** After the code that got the last line has run: it may have been the last that it wants. */
  #askSoon() {
    setImmediate(() => {
      // Whoever reads when there is something to read, and not as it flows, looks paused.
      const isPaused = this.isPaused() && this.listenerCount('readable') === 0;
      if (!this.#isWanted || isPaused || this.destroyed) return;
      this.#isWanted = false;
      this.#ask((value) => this.push(value === null ? null : `${value}\n`));
    });
  }
}

module.exports = { Input };
