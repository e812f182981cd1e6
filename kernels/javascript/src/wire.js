'use strict';

// The main thread's end of the way to the peer: a ring that the carrier thread empties into the socket.
//
// An interrupt may end JavaScript between any two operations. A record therefore exists from one atomic
// store on, and not before it; no state is kept outside of the shared memory.

const { WORDS, RING_SIZE, LARGEST_RECORD, HEADER_SIZE, KINDS } = require('./shared_words');

/** Exit status when nobody reads any more: what cannot be delivered must not be computed either. */
const PEER_GONE = 76;

/** Lengths of frames have four bytes. */
const LARGEST_FRAME = 2 ** 32 - 1;

/** Puts the length before each of some ASCII messages. */
function framed(bodies) {
  let size = 0;
  for (const body of bodies) {
    if (body.length > LARGEST_FRAME) throw new RangeError('the value is too large to be sent');
    size += 4 + body.length;
  }
  const bytes = Buffer.allocUnsafe(size);
  let offset = 0;
  for (const body of bodies) {
    offset = bytes.writeUInt32BE(body.length, offset);
    offset += bytes.latin1Write(body, offset, body.length);
  }
  return bytes;
}

/** Sends frames; blocks while the peer does not read. */
class Wire {
  /**
   * @param {{words: Int32Array, ring: Buffer}} shared
   * @param {MessagePort} bells wake the carrier
   * @param {MessagePort} parcels bring it the memory of large records
   */
  constructor(shared, bells, parcels) {
    this.words = shared.words;
    this.ring = shared.ring;
    this.bells = bells;
    this.parcels = parcels;
    this.largeRecords = 0;
    this.exit = process.reallyExit.bind(process);
  }

  /** Accepts messages, all or none. */
  send(...bodies) {
    this.#put(KINDS.frames, framed(bodies));
  }

  /** From here on output of others belongs to this execution. */
  begin(parent, ...bodies) {
    this.#put(KINDS.begin, Buffer.from(parent, 'latin1'));
    this.send(...bodies);
  }

  /** The last messages of an execution; what follows belongs to none. */
  end(...bodies) {
    this.#put(KINDS.end, framed(bodies));
  }

  /** Waits until everything accepted so far is in the socket. */
  flush() {
    const target = Atomics.load(this.words, WORDS.written);
    for (;;) {
      const sent = Atomics.load(this.words, WORDS.sent);
      if (sent === target || Atomics.load(this.words, WORDS.broken)) return;
      this.#ring();
      Atomics.wait(this.words, WORDS.sent, sent, 1000);
    }
  }

  #put(kind, payload) {
    if (payload.length > LARGEST_RECORD) {
      this.#putLarge(kind, payload);
      return;
    }
    const size = HEADER_SIZE + payload.length;
    this.#waitForSpace(size);
    const start = Atomics.load(this.words, WORDS.written);
    const header = Buffer.allocUnsafe(HEADER_SIZE);
    header.writeUInt32BE(payload.length, 0);
    header[4] = kind;
    this.#copy(header, start);
    this.#copy(payload, start + HEADER_SIZE);
    Atomics.store(this.words, WORDS.written, (start + size) | 0);
    this.#ring();
  }

  #putLarge(kind, payload) {
    const memory = new SharedArrayBuffer(payload.length);
    Buffer.from(memory).set(payload);
    const number = ++this.largeRecords;
    this.parcels.postMessage({ number, kind, memory });
    const record = Buffer.allocUnsafe(4);
    record.writeUInt32BE(number, 0);
    this.#put(KINDS.large, record);
    // One at a time, so that large values do not pile up.
    this.flush();
  }

  #waitForSpace(size) {
    for (;;) {
      if (Atomics.load(this.words, WORDS.broken)) this.exit(PEER_GONE);
      const read = Atomics.load(this.words, WORDS.read);
      const used = (Atomics.load(this.words, WORDS.written) - read) | 0;
      if (RING_SIZE - used >= size) return;
      Atomics.wait(this.words, WORDS.read, read, 1000);
    }
  }

  #copy(bytes, position) {
    const start = position & (RING_SIZE - 1);
    const untilEnd = Math.min(bytes.length, RING_SIZE - start);
    this.ring.set(untilEnd === bytes.length ? bytes : bytes.subarray(0, untilEnd), start);
    if (untilEnd < bytes.length) this.ring.set(bytes.subarray(untilEnd), 0);
  }

  #ring() {
    if (Atomics.load(this.words, WORDS.asleep)) this.bells.postMessage(null);
  }
}

module.exports = { Wire, framed, PEER_GONE };
