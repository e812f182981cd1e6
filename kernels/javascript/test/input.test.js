'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');

const { KernelClient } = require('./kernel_client');

let kernel;

before(async () => (kernel = await KernelClient.start()));
after(() => kernel.close());

const reply = (request, value) => kernel.send({ type: 'input_reply', parent: request.id, value });

/** Runs a cell that may ask, and gives it these answers. */
async function answered(code, ...answers) {
  kernel.start(code, { allow_stdin: true });
  const outcome = await kernel.finish((message) => {
    if (message.type === 'input_request') reply(message, answers.shift());
  });
  assert.deepEqual(answers, [], 'all answers were asked for');
  return outcome;
}

const question = (rest) => `
const rl = require('node:readline/promises').createInterface({ input: process.stdin, output: process.stdout });
${rest}
`;

test('prompt asks the peer and waits for its answer', async () => {
  const outcome = (await answered("console.log('before'); const name = prompt('Name? '); const more = prompt(); [name, more]", 'Zo\u00eb \ud83d\udc1d', null)).ok();
  assert.deepEqual(outcome.value['application/json'], ['Zo\u00eb \ud83d\udc1d', null]);
  const asked = outcome.ofType('input_request');
  assert.deepEqual(asked.map(({ prompt, password }) => [prompt, password]), [['Name? ', false], ['Prompt', false]]);
  const kinds = [...outcome].map(({ type }) => type);
  assert.ok(kinds.indexOf('stream') < kinds.indexOf('input_request'), 'what was printed comes before the question');
});

test('readline asks for the lines that are read, and for no more', async () => {
  const code = question("const first = await rl.question('First? '); const second = await rl.question('Second? '); rl.close(); first + second");
  const outcome = (await answered(code, 'a', 'b')).ok();
  assert.equal(outcome.value['text/plain'], "'ab'");
  assert.equal(outcome.text(), 'First? Second? ');
  assert.equal(outcome.ofType('input_request').length, 2);
});

test('lines are read up to the end of input', async () => {
  const lines = (await answered(question('const all = []; for await (const line of rl) all.push(line); all'), 'a', 'b', null)).ok();
  assert.deepEqual(lines.value['application/json'], ['a', 'b']);
  const chunks = (await answered("let text = ''; for await (const chunk of process.stdin) text += chunk; text", 'a', null)).ok();
  assert.equal(chunks.value['text/plain'], "'a\\n'");
});

test('a cell whose caller answers nothing finds its input at its end', async () => {
  (await answered('prompt()', 'a')).ok();
  for (const options of [{}, { allow_stdin: false }]) {
    const outcome = (await kernel.run("typeof prompt + require('fs').readFileSync(0).length", options)).ok();
    assert.equal(outcome.value['text/plain'], "'undefined0'");
  }
});

for (const code of ["prompt('never ')", question("await rl.question('never ')")]) {
  test(`an interrupt ends the wait of ${code.trim().split('\n').pop()}, and a late answer harms nobody`, async () => {
    let asked;
    kernel.start(code, { allow_stdin: true });
    const outcome = await kernel.finish((message) => {
      if (message.type !== 'input_request') return;
      asked = message;
      kernel.interrupt();
    });
    assert.equal(outcome.error.kind, 'interrupted');
    reply(asked, 'too late');
    assert.equal((await answered('prompt()', 'in time')).ok().value['text/plain'], "'in time'");
  });
}

test('a request that only speaks of an answer is a request', async () => {
  assert.equal((await kernel.run('\'{"type":"input_reply"}\'.length')).ok().value['text/plain'], '22');
});

// The last, because a function that was declared cannot be removed.
test('a function of the user that is called prompt stays', async () => {
  (await kernel.run("function prompt() { return 'mine'; }")).ok();
  assert.equal((await answered('prompt()')).ok().value['text/plain'], "'mine'");
  assert.equal((await kernel.run('prompt()')).ok().value['text/plain'], "'mine'");
});
