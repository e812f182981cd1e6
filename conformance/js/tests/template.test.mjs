// Templates: built, tagged and found as the SDK's own builder says.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { check, failure, group } from '../harness.mjs'
import { e2b, Sandbox } from '../sdk.mjs'
import { fetchPlain } from '../web.mjs'

const { Template } = e2b

/** Runs `body` with a name that is free, and is free again afterwards. */
async function named(body) {
  const name = `conformance-${randomBytes(6).toString('hex')}`
  try {
    return await body(name)
  } finally {
    const base = process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`
    const headers = { 'X-API-KEY': process.env.E2B_API_KEY }
    await fetchPlain(`${base}/templates/${name}`, { method: 'DELETE', headers })
  }
}

/** What a command prints in a new sandbox of a template. */
async function output(template, command) {
  const sandbox = await Sandbox.create(template, { timeoutMs: 60_000 })
  try {
    return (await sandbox.commands.run(command)).stdout
  } finally {
    await sandbox.kill()
  }
}

group(
  'templates',
  () => {
    check('builds.build', 'a template has what its steps made', () =>
      named(async (name) => {
        const template = Template()
          .fromTemplate('base')
          .setEnvs({ COLOUR: 'green' })
          .runCmd('echo $COLOUR > /tmp/colour', { user: 'root' })
          .setWorkdir('/srv')
        const lines = []
        const built = await Template.build(template, { alias: name, onBuildLogs: (line) => lines.push(line.message) })
        assert.ok(built.templateId && built.buildId)
        assert.ok(lines.some((line) => line.includes('RUN')), lines.join('\n'))
        assert.equal(await output(name, 'cat /tmp/colour; pwd'), 'green\n/srv\n')
      }))

    check('builds.copy', 'files are copied, the same ones twice at once', () =>
      named(async (name) => {
        const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
        try {
          writeFileSync(join(folder, 'note.txt'), 'hello')
          const template = Template({ fileContextPath: folder })
            .fromTemplate('base')
            .copy('note.txt', '/app/')
            .copy('note.txt', '/app/')
          await Template.build(template, { alias: name })
          assert.equal(await output(name, 'cat /app/note.txt'), 'hello')
        } finally {
          rmSync(folder, { recursive: true })
        }
      }))

    check('builds.errors', "a failing step is the caller's own line", () =>
      named(async (name) => {
        const template = Template().fromTemplate('base').runCmd('true').runCmd('exit 7')
        const error = await failure(Template.build(template, { alias: name }))
        assert.equal(error.message, "failed to run command 'exit 7': exit status 7")
        assert.match(error.stack, /template\.test\.mjs/)
      }))

    check('builds.errors', 'a base that is not there is named', () =>
      named(async (name) => {
        const error = await failure(Template.build(Template().fromTemplate('no-such-template'), { alias: name }))
        assert.match(error.message, /no-such-template/)
      }))

    check('builds.tags', 'tags are given, moved and taken', { newOnly: true }, () =>
      named(async (name) => {
        const version = (text) => Template().fromTemplate('base').runCmd(`echo ${text} > ~/version`)
        const one = await Template.build(version('one'), `${name}:v1`)
        await Template.build(version('two'), `${name}:v2`)
        const assigned = await Template.assignTags(`${name}:v1`, ['stable'])
        assert.equal(assigned.buildId, one.buildId)
        assert.equal(await output(`${name}:stable`, 'cat ~/version'), 'one\n')
        await Template.assignTags(`${name}:v2`, 'stable')
        assert.equal(await output(`${name}:stable`, 'cat ~/version'), 'two\n')
        await Template.removeTags(name, 'stable')
        await failure(Sandbox.create(`${name}:stable`))
        await failure(Template.removeTags(name, 'default'))
      }))

    check('builds.exists', 'a name is free or taken', { newOnly: true }, () =>
      named(async (name) => {
        assert.equal(await Template.exists('base'), true)
        assert.equal(await Template.exists(name), false)
        await Template.build(Template().fromTemplate('base'), name)
        assert.equal(await Template.exists(name), true)
      }))
  },
  { withSandbox: false },
)
