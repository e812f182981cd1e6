'use strict';

// The memory that the kernel's threads share: some words to agree by, and a ring of bytes.

/** Indices of the words. */
const WORDS = {
  /** How far the main thread has written into the ring, and how far the carrier has read; both wrap. */
  written: 0,
  read: 1,
  /** How far everything is in the socket. */
  sent: 2,
  /** 1 while the carrier waits for a bell. */
  asleep: 3,
  /** 1 when nobody reads the socket any more. */
  broken: 4,
  /** 1 while the main thread must not be terminated. */
  critical: 5,
  /** 1 while the carrier is about to terminate what the main thread runs. */
  terminating: 6,
  /** 1 when SIGINT is being listened for. */
  listening: 7,
  /** The number of the running execution; 0 for none. */
  execution: 8,
  /** How many answers to questions of cells have come; wraps. */
  answers: 9,
};

/** Bytes of the ring; a power of two, so that positions may wrap. */
const RING_SIZE = 1 << 20;

/** The longest record that goes through the ring; longer ones get memory of their own. */
const LARGEST_RECORD = RING_SIZE >> 2;

/** Length of the record's payload, and its kind. */
const HEADER_SIZE = 5;

/** What a record in the ring is. */
const KINDS = {
  /** Frames for the socket, as they are. */
  frames: 0,
  /** An execution begins; the payload is its id as JSON. */
  begin: 1,
  /** An execution ends with these frames. */
  end: 2,
  /** Frames that lie in memory of their own; the payload is that memory's number. */
  large: 3,
};

const WORDS_SIZE = 64;

/** New shared memory. */
function allocate() {
  return new SharedArrayBuffer(WORDS_SIZE + RING_SIZE);
}

/** The words and the ring in shared memory. */
function views(memory) {
  return {
    words: new Int32Array(memory, 0, WORDS_SIZE / 4),
    ring: Buffer.from(memory, WORDS_SIZE, RING_SIZE),
  };
}

module.exports = { WORDS, RING_SIZE, LARGEST_RECORD, HEADER_SIZE, KINDS, allocate, views };
