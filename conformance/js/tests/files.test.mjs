// Files, directories and watchers.

import assert from 'node:assert/strict'

import { check, eventually, expectError, failure, group } from '../harness.mjs'

const TEXT = 'first line\nnaïve — 日本語 🐝\n'
const BYTES = Uint8Array.from({ length: 16384 }, (_, index) => index % 256)
const missing = { new: 'FileNotFoundError', year: 'NotFoundError' }

async function drain(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

group('files', (box) => {
  const files = () => box.sandbox.files

  check('files.write', 'text written is read back', async ({ place }) => {
    const info = await files().write(`${place}/deep/er/a.txt`, TEXT)
    assert.deepEqual([info.name, info.path, info.type], ['a.txt', `${place}/deep/er/a.txt`, 'file'])
    assert.equal(await files().read(`${place}/deep/er/a.txt`), TEXT)
  })

  check('files.write', 'a shorter file replaces a longer one', async ({ place }) => {
    await files().write(`${place}/a.txt`, 'long '.repeat(1000))
    await files().write(`${place}/a.txt`, 'short')
    assert.equal(await files().read(`${place}/a.txt`), 'short')
  })

  check('files.write', 'array buffers and blobs are written', async ({ place }) => {
    await files().write(`${place}/buffer`, BYTES.buffer)
    await files().write(`${place}/blob`, new Blob([BYTES]))
    for (const name of ['buffer', 'blob']) {
      assert.deepEqual(Buffer.from(await files().read(`${place}/${name}`, { format: 'bytes' })), Buffer.from(BYTES))
    }
  })

  check('files.write', 'relative paths start at home', async () => {
    assert.equal((await files().write('relative-js.txt', 'here')).path, '/home/user/relative-js.txt')
    assert.equal(await files().read('~/relative-js.txt'), 'here')
  })

  check('files.read', 'every format gives the same file', async ({ place }) => {
    await files().write(`${place}/a.bin`, BYTES.buffer)
    const read = (format) => files().read(`${place}/a.bin`, { format })
    assert.deepEqual(Buffer.from(await read('bytes')), Buffer.from(BYTES))
    assert.deepEqual(Buffer.from(await (await read('blob')).arrayBuffer()), Buffer.from(BYTES))
    assert.deepEqual(await drain(await read('stream')), Buffer.from(BYTES))
  })

  check('files.read', 'an empty file is empty as text and bytes', async ({ place }) => {
    await files().write(`${place}/empty`, '')
    assert.equal(await files().read(`${place}/empty`), '')
    assert.equal((await files().read(`${place}/empty`, { format: 'bytes' })).length, 0)
  })

  // The year-old SDK gives an empty text for both.
  check('files.read', 'an empty file is an empty blob and stream', { newOnly: true }, async ({ place }) => {
    await files().write(`${place}/empty`, '')
    assert.equal((await files().read(`${place}/empty`, { format: 'blob' })).size, 0)
    assert.equal((await drain(await files().read(`${place}/empty`, { format: 'stream' }))).length, 0)
  })

  check('files.write_many', 'many files go in one call to where each says', async ({ place }) => {
    const entries = Array.from({ length: 12 }, (_, number) => ({
      path: `${place}/${number}/file.txt`,
      data: `number ${number}`,
    }))
    const infos = await files().write(entries)
    assert.deepEqual(infos.map((info) => info.path), entries.map((entry) => entry.path))
    for (const entry of entries) assert.equal(await files().read(entry.path), entry.data)
  })

  check('files.streams', 'a readable stream is uploaded', async ({ place }) => {
    await files().write(`${place}/stream`, new Blob([BYTES, BYTES]).stream())
    const read = Buffer.from(await files().read(`${place}/stream`, { format: 'bytes' }))
    assert.deepEqual(read, Buffer.concat([BYTES, BYTES]))
  })

  check('files.octet_stream', 'an octet-stream upload keeps bytes', { newOnly: true }, async ({ place }) => {
    await files().write(`${place}/x/raw`, BYTES.buffer, { useOctetStream: true })
    assert.deepEqual(Buffer.from(await files().read(`${place}/x/raw`, { format: 'bytes' })), Buffer.from(BYTES))
  })

  check('files.gzip', 'gzip shrinks the way and not the file', { newOnly: true }, async ({ place }) => {
    const content = 'compress me '.repeat(10_000)
    await files().write(`${place}/z`, content, { gzip: true })
    assert.equal((await files().getInfo(`${place}/z`)).size, content.length)
    assert.equal(await files().read(`${place}/z`), content)
    assert.equal(await files().read(`${place}/z`, { gzip: true }), content)
  })

  check('files.metadata', 'metadata stays with a file until it is written again', { newOnly: true }, async ({ place }) => {
    const metadata = { author: 'somebody', purpose: 'a test; with signs' }
    assert.deepEqual((await files().write(`${place}/m`, 'x', { metadata })).metadata, metadata)
    assert.deepEqual((await files().getInfo(`${place}/m`)).metadata, metadata)
    assert.deepEqual((await files().list(place))[0].metadata, metadata)
    assert.deepEqual((await files().rename(`${place}/m`, `${place}/n`)).metadata, metadata)
    await files().write(`${place}/n`, 'y')
    assert.equal((await files().getInfo(`${place}/n`)).metadata, undefined)
  })

  check('files.list', 'a listing is ordered and as deep as asked', async ({ place }) => {
    await box.sandbox.commands.run(
      `mkdir -p ${place}/b/c/d ${place}/a && touch ${place}/b/c/d/deep ${place}/b/file ${place}/z`,
    )
    const names = async (depth) => (await files().list(place, { depth })).map((entry) => entry.path.slice(place.length + 1))
    assert.deepEqual(await names(1), ['a', 'b', 'z'])
    assert.deepEqual(await names(2), ['a', 'b', 'b/c', 'b/file', 'z'])
    assert.deepEqual(await names(9), ['a', 'b', 'b/c', 'b/c/d', 'b/c/d/deep', 'b/file', 'z'])
  })

  check('files.list', 'a missing path, a file and a depth below one are refused', async ({ place }) => {
    expectError(await failure(files().list(`${place}/missing`)), { ...missing, says: 'missing' })
    await files().write(`${place}/file`, 'x')
    expectError(await failure(files().list(`${place}/file`)), { new: 'InvalidArgumentError', says: 'not a directory' })
    expectError(await failure(files().list(place, { depth: 0 })), { new: 'InvalidArgumentError', says: 'depth' })
  })

  check('files.info', 'a file and a directory are described completely', async ({ place }) => {
    await files().write(`${place}/a.txt`, '12345')
    const file = await files().getInfo(`${place}/a.txt`)
    assert.deepEqual(
      [file.name, file.type, file.size, file.mode, file.permissions, file.owner, file.group],
      ['a.txt', 'file', 5, 0o644, '-rw-r--r--', 'user', 'user'],
    )
    assert.ok(Math.abs(Date.now() - file.modifiedTime) < 30_000)
    const directory = await files().getInfo(place)
    assert.deepEqual([directory.type, directory.permissions], ['dir', 'drwxr-xr-x'])
  })

  check('files.info', 'a symlink shows where it leads', async ({ place }) => {
    await box.sandbox.commands.run(`mkdir -p ${place} && cd ${place} && echo x > file && ln -s file link`)
    const info = await files().getInfo(`${place}/link`)
    assert.deepEqual([info.symlinkTarget, info.type], [`${place}/file`, 'file'])
    expectError(await failure(files().getInfo(`${place}/missing`)), { ...missing, says: 'file not found' })
  })

  check('files.exists', 'exists tells files and directories from nothing', async ({ place }) => {
    assert.equal(await files().exists(place), false)
    await files().write(`${place}/a`, 'x')
    assert.equal(await files().exists(place), true)
    assert.equal(await files().exists(`${place}/a`), true)
  })

  check('files.rename', 'a file moves and a missing one is named', async ({ place }) => {
    await files().write(`${place}/old`, 'content')
    assert.equal((await files().rename(`${place}/old`, `${place}/new/new`)).path, `${place}/new/new`)
    assert.equal(await files().read(`${place}/new/new`), 'content')
    const error = await failure(files().rename(`${place}/old`, `${place}/other`))
    expectError(error, { ...missing, says: 'source file not found' })
  })

  check('files.remove', 'whole directories are removed and nothing is no error', async ({ place }) => {
    await files().write(`${place}/a/b/c`, 'x')
    await files().remove(place)
    assert.equal(await files().exists(place), false)
    await files().remove(place)
  })

  check('files.make_dir', 'a new directory is true and an old one false', async ({ place }) => {
    assert.equal(await files().makeDir(`${place}/with/parents`), true)
    assert.equal(await files().makeDir(`${place}/with/parents`), false)
  })

  check('files.users', "what root writes is root's", async () => {
    assert.equal((await files().write('by-root.txt', 'x', { user: 'root' })).path, '/root/by-root.txt')
    assert.equal((await files().getInfo('by-root.txt', { user: 'root' })).owner, 'root')
  })

  const oddNames = {
    space: 'a b  c.txt',
    unicode: 'naïve-日本-🐝.txt',
    quotes: `it's "here".txt`,
    newline: 'two\nlines.txt',
    backslash: 'back\\slash.txt',
    signs: '100%25 a+b&c=d?e#f.txt',
  }

  check('files.names', 'odd names survive one call with many files', async ({ place }) => {
    const paths = Object.values(oddNames).map((name) => `${place}/${name}`)
    const infos = await files().write(paths.map((path) => ({ path, data: path })))
    assert.deepEqual(infos.map((info) => info.path), paths)
    for (const path of paths) assert.equal(await files().read(path), path)
  })

  for (const [kind, name] of Object.entries(oddNames)) {
    check('files.names', `a name with ${kind} is written, read, listed, moved and removed`, async ({ place }) => {
      const info = await files().write(`${place}/${name}`, 'content')
      assert.deepEqual([info.name, info.path], [name, `${place}/${name}`])
      assert.equal(await files().read(`${place}/${name}`), 'content')
      assert.deepEqual((await files().list(place)).map((entry) => entry.name), [name])
      assert.equal((await files().rename(`${place}/${name}`, `${place}/moved ${name}`)).name, `moved ${name}`)
      await files().remove(`${place}/moved ${name}`)
      assert.deepEqual(await files().list(place), [])
    })
  }
})

group('watchers', (box) => {
  const files = () => box.sandbox.files
  const watch = async (path, options) => {
    const seen = { events: [], exits: [] }
    const onExit = (error) => seen.exits.push(error)
    seen.handle = await files().watchDir(path, (event) => seen.events.push(event), { onExit, ...options })
    seen.has = (name, type) =>
      eventually(() => seen.events.some((event) => event.name === name && event.type === type), `${type} of ${name}`)
    return seen
  }

  check('watch.events', 'a new file gives exactly create, chmod, write', async ({ place }) => {
    await files().makeDir(place)
    const seen = await watch(place)
    await files().write(`${place}/a.txt`, 'x')
    await seen.has('a.txt', 'write')
    await box.sandbox.commands.run(`mkdir ${place}/end`)
    await seen.has('end', 'create')
    const types = seen.events.filter((event) => event.name === 'a.txt').map((event) => event.type)
    assert.deepEqual(types, ['create', 'chmod', 'write'])
    await seen.handle.stop()
  })

  check('watch.events', 'changing, moving and removing are seen', async ({ place }) => {
    await files().write(`${place}/a.txt`, 'x')
    const seen = await watch(place)
    await box.sandbox.commands.run(`cd ${place}; echo y >> a.txt; chmod 600 a.txt; mv a.txt b.txt; rm b.txt`)
    await seen.has('b.txt', 'remove')
    for (const type of ['write', 'chmod', 'rename']) await seen.has('a.txt', type)
    await seen.has('b.txt', 'create')
    await seen.handle.stop()
  })

  check('watch.recursive', 'what is below is seen with its relative name', async ({ place }) => {
    await files().makeDir(`${place}/one`)
    const seen = await watch(place, { recursive: true })
    await files().write(`${place}/one/a.txt`, 'x')
    await seen.has('one/a.txt', 'write')
    await files().makeDir(`${place}/two`)
    await seen.has('two', 'create')
    await files().write(`${place}/two/b.txt`, 'x')
    await seen.has('two/b.txt', 'write')
    await seen.handle.stop()
  })

  check('watch.entry', 'an event can carry the entry', { newOnly: true }, async ({ place }) => {
    await files().makeDir(place)
    const seen = await watch(place, { includeEntry: true })
    await files().write(`${place}/a.txt`, '12345')
    await seen.has('a.txt', 'write')
    const { entry } = seen.events.find((event) => event.type === 'write')
    assert.deepEqual([entry.path, entry.size, entry.owner], [`${place}/a.txt`, 5, 'user'])
    await seen.handle.stop()
  })

  check('watch.events', 'a watch ends at its timeout with an error', async ({ place }) => {
    await files().makeDir(place)
    const seen = await watch(place, { timeoutMs: 1_000 })
    await eventually(() => seen.exits.length > 0, 'the end of the watch')
    assert.equal(seen.exits[0]?.constructor?.name, 'TimeoutError', String(seen.exits[0]))
  })

  check('watch.events', 'watching nothing or a file is refused', async ({ place }) => {
    const refused = (path) => failure(files().watchDir(path, () => {}))
    expectError(await refused(`${place}/missing`), { ...missing, says: 'missing' })
    await files().write(`${place}/file`, 'x')
    expectError(await refused(`${place}/file`), { new: 'InvalidArgumentError', says: 'not a directory' })
  })
})
