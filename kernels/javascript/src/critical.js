'use strict';

const { WORDS } = require('./shared_words');

/** The times in which the main thread must not be interrupted, because half of what it does would be worse. */
class Critical {
  #words;

  constructor(words) {
    this.#words = words;
  }

  enter() {
    Atomics.store(this.#words, WORDS.critical, 1);
    // The carrier may have looked just before: then it ends us here, or says that it is done.
    while (Atomics.load(this.#words, WORDS.terminating) === 1);
  }

  leave() {
    Atomics.store(this.#words, WORDS.critical, 0);
  }
}

module.exports = { Critical };
