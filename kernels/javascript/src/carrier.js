'use strict';

// The thread that carries: everything between the main thread and the outside passes here, so that the
// peer is served, and child processes are heard, while user code keeps the main thread busy.

const net = require('node:net');
const { parentPort, receiveMessageOnPort, workerData } = require('node:worker_threads');

const { Ender } = require('./ender');
const { FrameReader } = require('./frame_reader');
const { quote } = require('./encoding');
const { framed } = require('./wire');
const { PipeReader } = require('./pipe_reader');
const { WORDS, RING_SIZE, HEADER_SIZE, KINDS, views } = require('./shared_words');

/** Bytes on their way into the socket from which on nobody may add to them. */
const CONGESTION = 1 << 18;

/** How long the main thread may go on without a peer before the process is killed. */
const LONELY_MILLISECONDS = 2000;

const { memory, socketDescriptor, pipeDescriptors, bells, parcels, requests, answers, signals } = workerData;
const { words, ring } = views(memory);

const socket = new net.Socket({ fd: socketDescriptor, readable: true, writable: true, allowHalfOpen: true });
const frames = new FrameReader();
let parent = 'null';

const pipes = ['stdout', 'stderr'].map(
  (name, index) => new PipeReader(pipeDescriptors[index], (text) => forwardText(name, text), congested),
);

function congested() {
  return socket.writableLength > CONGESTION;
}

function write(bytes) {
  socket.write(bytes, noteSent);
}

function forwardText(name, text) {
  const time = Date.now() * 1000;
  write(framed([`{"type":"stream","parent":${parent},"name":"${name}","time":${time},"text":${quote(text)}}`]));
}

function noteSent() {
  if (socket.writableLength > 0) return;
  const read = Atomics.load(words, WORDS.read);
  if (Atomics.load(words, WORDS.sent) === read) return;
  Atomics.store(words, WORDS.sent, read);
  Atomics.notify(words, WORDS.sent);
}

/** Sends what is in the ring, until it is empty or the socket is full. */
function consume() {
  while (!congested()) {
    Atomics.store(words, WORDS.asleep, 0);
    const written = Atomics.load(words, WORDS.written);
    if (Atomics.load(words, WORDS.read) !== written) {
      // What children wrote before the main thread wrote this comes before it.
      for (const pipe of pipes) pipe.drain();
      carryUntil(written);
      continue;
    }
    Atomics.store(words, WORDS.asleep, 1);
    if (Atomics.load(words, WORDS.written) === written) break;
  }
  noteSent();
}

function carryUntil(written) {
  while (Atomics.load(words, WORDS.read) !== written && !congested()) {
    const start = Atomics.load(words, WORDS.read);
    const header = copy(start, HEADER_SIZE);
    const length = header.readUInt32BE(0);
    const payload = copy(start + HEADER_SIZE, length);
    carry(header[4], payload);
    Atomics.store(words, WORDS.read, (start + HEADER_SIZE + length) | 0);
    Atomics.notify(words, WORDS.read);
  }
}

function copy(position, length) {
  const bytes = Buffer.allocUnsafe(length);
  const start = position & (RING_SIZE - 1);
  const untilEnd = Math.min(length, RING_SIZE - start);
  ring.copy(bytes, 0, start, start + untilEnd);
  ring.copy(bytes, untilEnd, 0, length - untilEnd);
  return bytes;
}

function carry(kind, payload) {
  switch (kind) {
    case KINDS.begin:
      parent = payload.toString('latin1');
      break;
    case KINDS.end:
      // A cell that ends within a character will not finish it.
      for (const pipe of pipes) pipe.finishCharacter();
      write(payload);
      parent = 'null';
      break;
    case KINDS.large: {
      const record = largeRecord(payload.readUInt32BE(0));
      carry(record.kind, Buffer.from(record.memory));
      break;
    }
    default:
      write(payload);
  }
}

/** The memory was posted before the record; what an interrupt left without a record is passed over. */
function largeRecord(number) {
  for (;;) {
    const { message } = receiveMessageOnPort(parcels) ?? {};
    if (message === undefined) throw new Error(`large record ${number} was never posted`);
    if (message.number === number) return message;
  }
}

function goOn() {
  consume();
  for (const pipe of pipes) pipe.resume();
}

function lose() {
  Atomics.store(words, WORDS.broken, 1);
  for (const word of [WORDS.read, WORDS.sent]) Atomics.notify(words, word);
  parentPort.postMessage({ type: 'gone' });
  // Only the main thread can end the process with a status, and it may never come to it.
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), LONELY_MILLISECONDS);
}

socket.on('drain', goOn);
socket.on('error', lose);
socket.on('end', lose);
socket.on('data', (data) => {
  frames.feed(data);
  for (let frame = frames.next(); frame !== null; frame = frames.next()) {
    receive(frame.toString('utf8'));
  }
});
function receive(text) {
  // Looked for first, because a request may be large.
  const answer = text.includes('"input_reply"') ? JSON.parse(text) : null;
  if (answer?.type !== 'input_reply') {
    requests.postMessage(text);
    parentPort.postMessage({ type: 'request' });
    return;
  }
  const { parent: asked, value } = answer;
  answers.postMessage({ parent: asked, value: typeof value === 'string' ? value : null });
  Atomics.add(words, WORDS.answers, 1);
  Atomics.notify(words, WORDS.answers);
  parentPort.postMessage({ type: 'answer' });
}
bells.on('message', consume);

const ender = new Ender(words, parentPort);
signals.on('message', () => ender.interrupt());
parentPort.on('message', (message) => ender.receive(message));
consume();
