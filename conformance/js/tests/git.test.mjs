// The git helper, against repositories that live in the sandbox itself.

import assert from 'node:assert/strict'

import { check, expectError, failure, group } from '../harness.mjs'

const newOnly = true
const author = { authorName: 'A Bee', authorEmail: 'bee@example.com' }

group('git', (box) => {
  const repository = async (path) => {
    const { git, files } = box.sandbox
    await git.init(path, { initialBranch: 'main' })
    await files.write(`${path}/README.md`, 'one\n')
    await git.add(path)
    await git.commit(path, 'First', author)
    return git
  }

  check('git.repository', 'status tells clean, changed, staged and new', { newOnly }, async ({ place }) => {
    const git = await repository(place)
    assert.deepEqual((await git.status(place)).fileStatus, [])
    await box.sandbox.files.write(`${place}/README.md`, 'two\n')
    await box.sandbox.files.write(`${place}/new.txt`, 'x')
    const { currentBranch, fileStatus } = await git.status(place)
    assert.equal(currentBranch, 'main')
    assert.deepEqual(fileStatus.map((file) => [file.name, file.status]).sort(), [
      ['README.md', 'modified'],
      ['new.txt', 'untracked'],
    ])
    await git.restore(place, { paths: ['README.md'] })
    assert.equal(await box.sandbox.files.read(`${place}/README.md`), 'one\n')
  })

  check('git.branches', 'branches are made, listed, changed and deleted', { newOnly }, async ({ place }) => {
    const git = await repository(place)
    await git.createBranch(place, 'work')
    const both = await git.branches(place)
    assert.deepEqual([both.branches.toSorted(), both.currentBranch], [['main', 'work'], 'work'])
    await git.checkoutBranch(place, 'main')
    await git.deleteBranch(place, 'work')
    assert.deepEqual((await git.branches(place)).branches, ['main'])
  })

  check('git.remotes', 'clone, push and pull go around', { newOnly }, async ({ place }) => {
    const git = await repository(`${place}/first`)
    await git.init(`${place}/hub.git`, { bare: true, initialBranch: 'main' })
    await git.remoteAdd(`${place}/first`, 'origin', `${place}/hub.git`)
    await git.push(`${place}/first`, { remote: 'origin', branch: 'main' })
    await git.clone(`${place}/hub.git`, { path: `${place}/second` })
    await box.sandbox.files.write(`${place}/first/README.md`, 'two\n')
    await git.add(`${place}/first`)
    await git.commit(`${place}/first`, 'Second', author)
    await git.push(`${place}/first`)
    await git.pull(`${place}/second`)
    assert.equal(await box.sandbox.files.read(`${place}/second/README.md`), 'two\n')
    assert.equal(await git.remoteGet(`${place}/first`, 'other'), undefined)
  })

  check('git.remotes', 'pushing a branch without upstream tells what to do', { newOnly }, async ({ place }) => {
    const git = await repository(`${place}/first`)
    await git.init(`${place}/hub.git`, { bare: true, initialBranch: 'main' })
    await git.remoteAdd(`${place}/first`, 'origin', `${place}/hub.git`)
    const error = await failure(git.push(`${place}/first`, { setUpstream: false }))
    expectError(error, { new: 'GitUpstreamError', says: 'upstream' })
  })

  check('git.config', 'configuration is kept', { newOnly }, async () => {
    const { git } = box.sandbox
    await git.configureUser('A Bee', 'bee@example.com')
    assert.equal(await git.getConfig('user.name'), 'A Bee')
    assert.equal(await git.getConfig('no.such'), undefined)
  })
})
