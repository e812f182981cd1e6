'use strict';

const fs = require('node:fs');
const net = require('node:net');
const { StringDecoder } = require('node:string_decoder');

const { pieces } = require('./encoding');

/** What a pipe holds: one read of this size takes everything that was written before it. */
const PIPE_CAPACITY = 65536;

/** Hears what child processes and descriptors 1 and 2 are told. */
class PipeReader {
  /**
   * @param {number} descriptor the reading end, which does not block
   * @param {(text: string) => void} forward
   * @param {() => boolean} congested whether to stop reading
   */
  constructor(descriptor, forward, congested) {
    this.descriptor = descriptor;
    this.forward = forward;
    this.decoder = new StringDecoder('utf8');
    this.buffer = Buffer.allocUnsafeSlow(PIPE_CAPACITY);
    const callback = (length, buffer) => {
      this.#take(buffer.subarray(0, length));
      return !congested();
    };
    const onread = { buffer: Buffer.allocUnsafeSlow(PIPE_CAPACITY), callback };
    this.source = new net.Socket({ fd: descriptor, readable: true, writable: false, onread });
  }

  /** Takes what is in the pipe now. */
  drain() {
    for (let length = PIPE_CAPACITY; length === PIPE_CAPACITY; ) {
      try {
        length = fs.readSync(this.descriptor, this.buffer);
      } catch (error) {
        if (error.code === 'EAGAIN') return;
        throw error;
      }
      this.#take(this.buffer.subarray(0, length));
    }
  }

  /** Nothing will follow what was read of a character. */
  finishCharacter() {
    this.#forward(this.decoder.end());
  }

  /** Goes on after congestion. */
  resume() {
    this.source.resume();
  }

  #take(bytes) {
    this.#forward(this.decoder.write(bytes));
  }

  #forward(text) {
    for (const piece of pieces(text)) this.forward(piece);
  }
}

module.exports = { PipeReader };
