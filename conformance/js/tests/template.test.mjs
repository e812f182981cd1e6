// Templates: built, tagged and found as the SDK's own builder says.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { check, eventually, failure, group } from '../harness.mjs'
import { e2b, isYear, Sandbox } from '../sdk.mjs'
import { fetchPlain } from '../web.mjs'

const { Template } = e2b
// Without the runner there is none, and nothing to be asked of one.
const registry = process.env.CONFORMANCE_REGISTRY

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

/** Runs `body` in a folder with these files, which is gone afterwards. */
async function inFolder(files, body) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(folder, path, '..'), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    return await body(folder)
  } finally {
    rmSync(folder, { recursive: true })
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
      named((name) =>
        inFolder({ 'note.txt': 'hello', 'app/a.txt': 'a', 'app/sub/b.txt': 'b', 'ü.txt': 'umlaut' }, async (folder) => {
          symlinkSync('note.txt', join(folder, 'link'))
          const template = Template({ fileContextPath: folder, fileIgnorePatterns: ['app/a.txt'] })
            .fromTemplate('base')
            .copy('note.txt', '/app/')
            .copy('note.txt', '/app/')
            .copy('app', '/tree')
            .copy('link', '/tree/', { user: 'root' })
            .copy('link', '/resolved', { resolveSymlinks: true })
            .copy('ü.txt', 'relative/', { mode: 0o600, user: 'user' })
            .copy('**/*.txt', '/all', { forceUpload: true })
          await Template.build(template, { alias: name })
          const look = "cat /app/note.txt /resolved ~/relative/ü.txt; echo; find /tree /all -printf '%p %u %l\\n' | sort; stat -c %a ~/relative/ü.txt"
          assert.deepEqual((await output(name, look)).split('\n').map((line) => line.trim()), [
            'hellohelloumlaut',
            ...['/all user', '/all/app user', '/all/app/sub user', '/all/app/sub/b.txt user', '/all/note.txt user', '/all/ü.txt user'],
            ...['/tree user', '/tree/link root note.txt', '/tree/sub user', '/tree/sub/b.txt user', '600', ''],
          ])
        })))

    check('builds.files', 'directories, links and files are made, moved and removed', () =>
      named(async (name) => {
        const template = Template()
          .fromTemplate('base')
          .makeDir(['a/b', 'c'], { mode: 0o700 })
          .runCmd(['echo one > a/file', 'echo two > c/file'])
          .rename('a/file', 'a/moved')
          .makeSymlink('a/moved', 'link')
          .remove('c', { recursive: true, force: true })
        await Template.build(template, { alias: name })
        assert.equal(await output(name, 'ls; cat link; stat -c %a a/b'), 'a\nlink\none\n700\n')
      }))

    check('builds.envs', 'variables are expanded and stay', () =>
      named(async (name) => {
        const template = Template()
          .fromTemplate('base')
          .setEnvs({ A: '1' })
          .setEnvs({ B: '$A-${A}x', C: '${NONE:-d}', D: '`id`$(id)', PATH: '/opt/own:${PATH}' })
          .runCmd('echo "$B $C $D" > /tmp/seen')
        await Template.build(template, { alias: name })
        const shown = await output(name, 'cat /tmp/seen; echo "$B $C $D"; echo $PATH')
        assert.match(shown, /^1-1x d `id`\$\(id\)\n1-1x d `id`\$\(id\)\n(.*:)?\/opt\/own:/)
      }))

    check('builds.users', 'commands run as any user in any directory', () =>
      named(async (name) => {
        const template = Template()
          .fromTemplate('base')
          .runCmd('whoami > /tmp/1', { user: 'root' })
          .setUser('app')
          .setWorkdir('/srv/here')
          .runCmd('whoami > /tmp/2; pwd >> /tmp/2')
        await Template.build(template, { alias: name })
        assert.equal(await output(name, 'cat /tmp/[12]; whoami; pwd'), 'root\napp\n/srv/here\napp\n/srv/here\n')
      }))

    check('builds.git_clone', 'a repository is cloned', () =>
      named(async (name) => {
        const commit = 'git -c user.name=a -c user.email=a@b commit -q -m one'
        const template = Template()
          .fromTemplate('base')
          .runCmd(`git init -q -b main ~/r && cd ~/r && echo hi > f && git add f && ${commit}`)
          .gitClone('file:///home/user/r', '/home/user/clone', { depth: 1 })
        await Template.build(template, { alias: name })
        assert.equal(await output(name, 'cat clone/f'), 'hi\n')
      }))

    check('builds.start', 'create answers when the start command is ready', () =>
      named(async (name) => {
        const template = Template()
          .fromTemplate('base')
          .setWorkdir('/srv')
          .setStartCmd('python3 -m http.server 8000', e2b.waitForPort(8000))
        const lines = []
        await Template.build(template, { alias: name, onBuildLogs: (line) => lines.push(line.message) })
        assert.ok(lines.includes('Template is ready'), lines.join('\n'))
        assert.equal(await output(name, 'curl -s -o /dev/null -w %{http_code} localhost:8000'), '200')
      }))

    check('builds.cache', 'steps are found again until told otherwise', () =>
      named(async (name) => {
        const template = (skip) => {
          const base = Template().fromTemplate('base')
          return (skip ? base.skipCache() : base).runCmd(`date +%s%N > ~/at; : ${name}`)
        }
        const at = async (built, options = {}) => {
          await Template.build(built, { alias: name, ...options })
          return output(name, 'cat at')
        }
        const first = await at(template(false))
        assert.equal(await at(template(false)), first)
        assert.notEqual(await at(template(true)), first)
        assert.notEqual(await at(template(false), { skipCache: true }), first)
      }))

    check('builds.from_base_image', 'the base image is the base template', () =>
      named(async (name) => {
        await Template.build(Template().fromBaseImage().runCmd('node --version'), { alias: name })
        assert.equal(await output(name, 'id -un'), 'user\n')
      }))

    check('builds.from_image', 'images are found', { deadline: 300_000 }, () =>
      named(async (name) => {
        if (!registry) return
        for (const call of ['fromDebianImage', 'fromUbuntuImage', 'fromPythonImage', 'fromNodeImage', 'fromBunImage']) {
          await Template.build(Template()[call](), { alias: name })
        }
        assert.equal(await output(name, 'cat /etc/conformance; echo $FROM_IMAGE; id -un'), 'image\nyes\nuser\n')
      }))

    check('builds.from_dockerfile', 'a Dockerfile is built', { deadline: 300_000 }, () =>
      named((name) =>
        inFolder({ 'note.txt': 'note' }, async (folder) => {
          if (!registry) return
          const text = 'ARG V=13\nFROM debian:${V}\nENV A=1\nRUN echo $A > /tmp/a\nCOPY note.txt /tmp/\n'
          await Template.build(Template({ fileContextPath: folder }).fromDockerfile(text), { alias: name })
          assert.equal(await output(name, 'cat /tmp/a /tmp/note.txt; id -un'), '1\nnoteuser\n')
        })))

    check('builds.registries', 'a private registry wants credentials', { deadline: 300_000 }, () =>
      named(async (name) => {
        if (!registry) return
        const image = `${registry}/private/debian:13`
        const { CONFORMANCE_REGISTRY_USER: username, CONFORMANCE_REGISTRY_PASSWORD: password } = process.env
        await Template.build(Template().fromImage(image, { username, password }), { alias: name })
        const serviceAccountJSON = JSON.parse(process.env.CONFORMANCE_REGISTRY_KEY)
        await Template.build(Template().fromGCPRegistry(image, { serviceAccountJSON }), { alias: name })
        const wrong = await failure(Template.build(Template().fromImage(image, { username, password: 'wrong' }), { alias: name }))
        assert.match(wrong.message, /does not accept the credentials/)
        const aws = { accessKeyId: 'AKIA', secretAccessKey: 'secret', region: 'no region' }
        const refused = await failure(Template.build(Template().fromAWSRegistry(image, aws), { alias: name }))
        assert.match(refused.message, /the AWS region is not valid/)
      }))

    check('builds.background', 'a build in the background is followed', () =>
      named(async (name) => {
        const template = Template().fromTemplate('base').runCmd('sleep 1')
        const info = await (isYear
          ? Template.buildInBackground(template, { alias: name })
          : Template.buildInBackground(template, name))
        const status = async () => (await Template.getBuildStatus(info, { logsOffset: 0 })).status
        assert.ok(['building', 'ready'].includes(await status()))
        await eventually(async () => (await status()) === 'ready', 'the end of the build', 60_000)
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
