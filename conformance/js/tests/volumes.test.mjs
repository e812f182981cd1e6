// Files that outlive sandboxes and are shared by them.

import assert from 'node:assert/strict'

import { check, failure, group } from '../harness.mjs'
import { e2b, Sandbox } from '../sdk.mjs'
import { fetchApi } from '../web.mjs'

const output = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim()

/** Runs `work` with a volume that is destroyed afterwards. */
async function withVolume(work) {
  const volume = await e2b.Volume.create(`conformance-${process.pid}-${Date.now()}-${Math.floor(Math.random() * 1e6)}`)
  try {
    await work(volume)
  } finally {
    await e2b.Volume.destroy(volume.volumeId)
  }
}

group('volumes', () => {
  check('volumes.manage', 'volumes are made, listed, found and destroyed', { newOnly: true }, async () => {
    let id
    await withVolume(async (volume) => {
      id = volume.volumeId
      assert.ok((await e2b.Volume.list()).some((item) => item.volumeId === id && item.name === volume.name))
      assert.equal((await e2b.Volume.getInfo(id)).name, volume.name)
      const again = await e2b.Volume.connect(id)
      await again.writeFile('/a', '1')
      assert.equal(await volume.readFile('/a'), '1')
      assert.match((await failure(e2b.Volume.create(volume.name))).message, /already exists/)
    })
    assert.equal(await e2b.Volume.destroy(id), false)
    assert.equal((await failure(e2b.Volume.getInfo(id))).name, 'VolumeNotFoundError')
  })

  check('volumes.files', 'files of a volume', { newOnly: true }, async () => {
    await withVolume(async (volume) => {
      const entry = await volume.writeFile('/notes/ä b.txt', 'hello', { force: true })
      assert.deepEqual([entry.path, entry.size, entry.mode, entry.uid], ['/notes/ä b.txt', 5, 0o666, 1000])
      assert.equal(await volume.readFile('/notes/ä b.txt'), 'hello')
      await volume.writeFile('/empty', '')
      assert.equal(await volume.readFile('/empty'), '')
      await volume.makeDir('/d/e', { mode: 0o700, force: true })
      const paths = (await volume.list('/', { depth: 3 })).map((item) => item.path)
      assert.deepEqual(paths, ['/d', '/d/e', '/empty', '/notes', '/notes/ä b.txt'])
      assert.equal((await volume.updateMetadata('/empty', { uid: 7 })).uid, 7)
      const big = new Uint8Array(8 << 20).fill(7)
      await volume.writeFile('/big', big.buffer)
      assert.equal((await volume.readFile('/big', { format: 'bytes' })).length, big.length)
      assert.equal(await volume.exists('/d'), true)
      await volume.remove('/d')
      assert.equal(await volume.exists('/d'), false)
      assert.equal((await failure(volume.readFile('/none'))).name, 'VolumePathNotFoundError')
    })
  })

  check('volumes.mount', 'a sandbox sees what the API wrote, and the other way round', { newOnly: true }, async () => {
    await withVolume(async (volume) => {
      await volume.writeFile('/from-api', 'hello')
      const sandbox = await Sandbox.create({ timeoutMs: 120_000, volumeMounts: { '/mnt/data': volume } })
      try {
        assert.equal(await output(sandbox, 'cat /mnt/data/from-api; stat -c %U /mnt/data/from-api'), 'hellouser')
        await sandbox.files.write('/mnt/data/from-sandbox', '1')
        assert.equal(await volume.readFile('/from-sandbox'), '1')
        assert.match((await failure(e2b.Volume.destroy(volume.volumeId))).message, new RegExp(sandbox.sandboxId))
      } finally {
        await sandbox.kill()
      }
    })
  })
  // The SDK has no word for them: it uses what the API has made.
  check('volumes.copies', 'a snapshot stays as it was and a clone goes on by itself', { newOnly: true }, async () => {
    await withVolume(async (volume) => {
      await volume.writeFile('/a', 'then')
      const made = []
      try {
        for (const [suffix, readOnly] of [['snapshot', true], ['clone', false]]) {
          const body = { name: `${volume.name}-${suffix}`, skep: { source: volume.volumeId, readOnly } }
          const answer = await fetchApi('POST', '/volumes', body)
          assert.equal(answer.status, 201, answer.text)
          made.push(await e2b.Volume.connect(answer.json().volumeID))
        }
        const [snapshot, clone] = made
        await volume.writeFile('/a', 'now', { force: true })
        assert.equal(await snapshot.readFile('/a'), 'then')
        assert.match((await failure(snapshot.writeFile('/b', 'x'))).message, /403/)
        await clone.writeFile('/a', 'else', { force: true })
        assert.equal(await volume.readFile('/a'), 'now')
        assert.equal(await clone.readFile('/a'), 'else')
      } finally {
        for (const copy of made) await e2b.Volume.destroy(copy.volumeId)
      }
    })
  })
})
