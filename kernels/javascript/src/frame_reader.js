'use strict';

/** Collects bytes and yields whole frames. */
class FrameReader {
  #pieces = [];
  #size = 0;

  feed(piece) {
    this.#pieces.push(piece);
    this.#size += piece.length;
  }

  /** The oldest complete frame, or null. */
  next() {
    if (this.#size < 4) return null;
    if (this.#pieces[0].length < 4) this.#join();
    const length = this.#pieces[0].readUInt32BE(0);
    if (this.#size < 4 + length) return null;
    this.#join();
    const [bytes] = this.#pieces;
    this.#pieces = [bytes.subarray(4 + length)];
    this.#size -= 4 + length;
    return bytes.subarray(4, 4 + length);
  }

  #join() {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces)];
  }
}

module.exports = { FrameReader };
