/** Tests that a failed upload does not wait until all deleted files are purged. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import type { FileStore } from '../store/file-store.ts'
import { Files } from './files.ts'

test('an upload that fails purges no more than it has written', async () => {
  let left = 1000
  const store: Partial<FileStore> = {
    beginFile: async () => true,
    deleteFile: async () => true,
    purgeFiles: async () => --left > 0,
  }
  const options = {
    quotas: { reserve: () => null, end: () => {} },
    clock: new FakeClock(),
    makeId: () => 'a',
  }
  const files = new Files({ ...options, store: store as FileStore })
  const writer = await files.begin({ account: 'a', tier: { maxFiles: 1 }, quotas: null })
  await writer?.abort()
  assert.equal(left, 999)
})
