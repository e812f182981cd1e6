// The vault: secrets that go in and never come out.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'

import { check, group } from '../harness.mjs'
import { e2b } from '../sdk.mjs'

group('secrets', () => {
  check('secrets.vault', 'a secret is kept, changed, listed and destroyed', { newOnly: true }, async () => {
    const { Secret } = e2b
    const name = `conformance-${randomUUID()}`
    const made = await Secret.create(name, 'first value', { metadata: { owner: 'ci' } })
    try {
      assert.deepEqual([made.name, made.version, made.metadata], [name, 1, { owner: 'ci' }])
      const changed = await Secret.update(made.secretId, 'second value')
      assert.equal(changed.version, 2)
      assert.equal((await Secret.getInfo(name)).secretId, made.secretId)
      const listed = await Secret.list().nextItems()
      assert.ok(listed.some((secret) => secret.secretId === made.secretId))
    } finally {
      assert.equal(await Secret.destroy(name), true)
    }
    assert.equal(await Secret.exists(name), false)
    assert.equal(await Secret.exists('a b/c?d'), false)
  })
}, { withSandbox: false })
