// The languages beside Python: what each of them can do, and what is special about one.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'

import { check, expectError, failure } from '../harness.mjs'
import { AWKWARD, LANGUAGES, interpreterGroup } from '../interpreters.mjs'
import { isYear } from '../sdk.mjs'

// Each start of Java and R takes a second: what needs one more is tried with one SDK in one mode.
const isFirst = !isYear && process.env.CONFORMANCE_MODE !== 'domain'

// `out` and `err` print, `keep` and `recall` remember 41 and print the number after it, `variable` prints NAME of the environment or `unset`,
// `wait` waits for the file PLACE, which `make` makes.
const javascript = {
  out: "console.log('out')",
  err: "console.error('out')",
  keep: 'const kept = 41',
  recall: 'console.log(kept + 1)',
  variable: "console.log(process.env.NAME ?? 'unset')",
  directory: 'console.log(process.cwd())',
  failing: ['null.x', 'TypeError', 'Cannot read properties of null'],
  asleep: 'await new Promise(() => setInterval(() => {}, 1000))',
  wait: "while (!require('fs').existsSync('PLACE')) await new Promise((done) => setTimeout(done, 20))",
  make: "require('fs').writeFileSync('PLACE', '')",
  die: 'process.exit(3)',
}
const languages = {
  javascript,
  typescript: {
    ...javascript,
    out: "const word: string = 'out'; console.log(word)",
    keep: 'enum Kept { Value = 41 }',
    recall: 'console.log(Kept.Value + 1)',
    failing: ['(null as any).x', 'TypeError', 'Cannot read properties of null'],
  },
  bash: {
    out: 'echo out',
    err: 'echo out >&2',
    keep: 'kept=41',
    recall: 'echo $((kept + 1))',
    variable: 'echo "${NAME-unset}"',
    directory: 'pwd',
    failing: ['(exit 7)', '', '7'],
    asleep: 'sleep 300',
    wait: 'until [ -e PLACE ]; do sleep 0.02; done',
    make: 'touch PLACE',
    die: 'kill -9 $$',
  },
  java: {
    out: 'System.out.println("out")',
    err: 'System.err.println("out")',
    keep: 'int kept = 41;',
    recall: 'System.out.println(kept + 1)',
    variable: 'System.out.println(System.getProperty("NAME", "unset"))',
    directory: 'System.out.println(System.getProperty("user.dir"))',
    failing: ['throw new IllegalStateException("no")', 'IllegalStateException', 'no'],
    asleep: 'Thread.sleep(300_000)',
    wait: 'while (!new java.io.File("PLACE").exists()) Thread.sleep(20);',
    make: 'new java.io.File("PLACE").createNewFile();',
  },
  r: {
    out: 'cat("out\\n")',
    err: 'message("out")',
    keep: 'kept <- 41',
    recall: 'cat(kept + 1, "\\n", sep = "")',
    variable: 'cat(Sys.getenv("NAME", "unset"), "\\n", sep = "")',
    directory: 'cat(getwd(), "\\n", sep = "")',
    failing: ['stop("no")', 'ERROR', 'no'],
    asleep: 'Sys.sleep(300)',
    wait: 'while (!file.exists("PLACE")) Sys.sleep(0.02)',
    make: 'invisible(file.create("PLACE"))',
  },
}

interpreterGroup('languages of the small template', (interpreter) => {
  for (const language of ['javascript', 'typescript', 'bash']) everywhere(language, interpreter)
  ofJavaScript(interpreter)
})

interpreterGroup(
  'languages of the larger template',
  (interpreter) => {
    for (const language of ['java', 'r']) everywhere(language, interpreter)
    ofJavaAndR(interpreter)
  },
  LANGUAGES,
)

/** What every language can do. */
function everywhere(language, { opened, run, printed, context }) {
  const feature = `language.${language}`
  const says = languages[language]
  const isSlow = language === 'java' || language === 'r'
  const here = { language }
  let other
  const second = async () => (other ??= await context({ language, cwd: '/tmp' }))

  check(feature, 'code prints, fails and remembers', { deadline: 180_000 }, async () => {
    assert.equal(await printed(says.out, here), 'out\n')
    const { logs, error } = await run(says.err, here)
    // IRkernel ends a message twice.
    assert.deepEqual([logs.stderr.join('').trimEnd(), logs.stdout, error], ['out', [], undefined])
    await printed(says.keep, here)
    const [code, name, value] = says.failing
    const failed = (await run(code, here)).error
    assert.equal(failed.name, name)
    assert.ok(failed.value.includes(value), failed.value)
    assert.equal(await printed(says.recall, here), '42\n')
  })

  check(feature, 'variables of the sandbox and of an execution are seen and restored', async () => {
    const ofSandbox = says.variable.replace('NAME', 'GLOBAL')
    assert.equal(await printed(says.variable, { ...here, envs: { NAME: AWKWARD } }), `${AWKWARD}\n`)
    assert.equal(await printed(says.variable, here), 'unset\n')
    assert.equal(await printed(ofSandbox, { ...here, envs: { GLOBAL: 'over' } }), 'over\n')
    assert.equal(await printed(ofSandbox, here), `${AWKWARD}\n`)
  })

  check(feature, 'giving up interrupts and keeps what was known', async () => {
    await printed(says.keep, here)
    const error = await failure(run(says.asleep, { ...here, timeoutMs: 1000 }))
    expectError(error, { new: 'TimeoutError', says: 'timed out' })
    assert.equal(await printed(says.recall, { ...here, timeoutMs: 20_000 }), '42\n')
  })

  if (isSlow && !isFirst) return

  check(feature, 'a context has its own variables and place', async () => {
    const context = await second()
    assert.deepEqual([context.language, context.cwd], [language, '/tmp'])
    assert.equal(await printed(says.directory, { context }), '/tmp\n')
    assert.equal(await printed(says.directory, here), '/home/user\n')
    await printed(says.keep, here)
    assert.notDeepEqual((await run(says.recall, { context })).logs.stdout, ['42\n'])
  })

  check(feature, 'contexts run beside each other', async () => {
    const place = `/tmp/${randomUUID()}`
    const waiting = run(says.wait.replace('PLACE', place), { context: await second() })
    await printed(says.make.replace('PLACE', place), here)
    assert.equal((await waiting).error, undefined)
  })

  // The Python SDKs see to these.
  if (isSlow) return

  check(feature, 'the death of a kernel is one error, and the next execution works', async () => {
    const context = await second()
    const seen = []
    await run(says.die, { context, onError: (error) => seen.push(error.name) })
    assert.deepEqual(seen, ['ContextRestarting'])
    assert.equal(await printed(says.out, { context }), 'out\n')
  })

  check(feature, 'a context is listed, restarted and removed', { newOnly: true }, async () => {
    const sandbox = await opened()
    const made = await second()
    const listed = await sandbox.listCodeContexts()
    assert.ok(listed.some((each) => each.id === made.id && each.language === language && each.cwd === '/tmp'))
    assert.deepEqual(listed.slice(0, 2).map((each) => each.language), ['python', 'javascript'])
    await printed(says.keep, { context: made })
    await sandbox.restartCodeContext(made)
    assert.notDeepEqual((await run(says.recall, { context: made })).logs.stdout, ['42\n'])
    await sandbox.removeCodeContext(made)
    const error = await failure(run(says.out, { context: made }))
    expectError(error, { new: 'NotFoundError', says: `Context ${made.id} not found` })
  })
}

function ofJavaScript({ run }) {
  check('language.javascript', 'values, promises, modules and what is declared again', async () => {
    const text = async (code) => (await run(code, { language: 'js' })).text
    assert.equal(await text('({ a: [1] })'), '{ a: [ 1 ] }')
    assert.equal(await text("await new Promise((done) => setTimeout(() => done('slept'), 20))"), 'slept')
    assert.equal(await text('Promise.resolve(5)'), '5')
    assert.equal(await text("import { join } from 'node:path'; join('a', 'b')"), 'a/b')
    assert.equal(await text('const again = 1; again'), '1')
    assert.equal(await text('const again = 2; again'), '2')
    assert.equal(await text('undefined'), undefined)
  })

  check('language.javascript', 'errors and rejections have their names', async () => {
    const error = async (code) => (await run(code, { language: 'js' })).error
    assert.equal((await error("Promise.reject(new TypeError('no'))")).name, 'TypeError')
    assert.equal((await error("throw 'text'")).value, "'text'")
    assert.equal((await error('let (')).name, 'SyntaxError')
  })

  check('language.javascript', 'what is displayed has its field', async () => {
    const { results } = await run("$$.display().html('<b>h</b>'); $$.json({ a: 1 })", { language: 'js' })
    assert.deepEqual([results[0].html, results[0].isMainResult], ['<b>h</b>', false])
    assert.deepEqual([results[1].json, results[1].isMainResult], [{ a: 1 }, true])
  })

  check('language.typescript', 'types are understood', async () => {
    const code = 'interface Point { x: number }\nconst point: Point = { x: 1 }\npoint'
    assert.equal((await run(code, { language: 'ts' })).text, '{ x: 1 }')
  })
}

function ofJavaAndR({ run }) {
  check('language.java', 'values and errors', async () => {
    assert.equal((await run('record Point(int x) {}\nnew Point(1)', { language: 'java' })).text, 'Point[x=1]')
    assert.equal((await run('int wrong = "a";', { language: 'java' })).error.name, 'CompilationException')
  })

  check('language.r', 'values, plots and frames', async () => {
    assert.equal((await run('1 + 1', { language: 'r' })).results[0].text, '[1] 2')
    assert.ok((await run('plot(1:10)', { language: 'r' })).results[0].png.startsWith('iVBORw0KGgo'))
    assert.ok((await run('head(mtcars, 3)', { language: 'r' })).results[0].html.includes('<table'))
  })
}
