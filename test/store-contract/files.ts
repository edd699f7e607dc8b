/** Tests what every store guarantees about files. */
import assert from 'node:assert/strict'
import { ABANDONED_MS, type FileSearch, PIECE_BYTES } from '../../src/store/file-store.ts'
import type { Store } from '../../src/store/store.ts'
import { ids, newJob, now, type On, several } from './fixtures.ts'

const ABOUT = { filename: 'lines.jsonl', purpose: 'batch', expiresAtMs: null }
const pieceOf = (byte: number, length = PIECE_BYTES) => new Uint8Array(length).fill(byte)

async function begin(store: Store, account = 'acme', maxFiles = 100): Promise<string> {
  const { id } = newJob()
  assert.equal(await store.beginFile({ id, account, createdAtMs: now.ms }, maxFiles), true)
  return id
}

async function storeFile(store: Store, about: Partial<typeof ABOUT> = {}, pieces = 1, account = 'acme') {
  const id = await begin(store, account)
  for (let at = 0; at < pieces; at++) await store.appendToFile(id, at, pieceOf(at), now.ms)
  const file = await store.completeFile(id, { ...ABOUT, ...about })
  assert.ok(file)
  return file
}

async function purge(store: Store): Promise<void> {
  while (await store.purgeFiles(now.ms));
}

const storedBytes = async (store: Store) => (await store.quotaUse('acme')).storedBytes

export function fileTests(on: On): void {
  on('stores the pieces of a file, which can be read once it is complete', async (store) => {
    const id = await begin(store)
    for (const [at, length] of [PIECE_BYTES, PIECE_BYTES, 7].entries()) {
      assert.equal(await store.appendToFile(id, at, pieceOf(at + 250, length), now.ms), true)
    }
    assert.equal(await store.findFile('acme', id, now.ms), null)
    const file = { id, account: 'acme', createdAtMs: now.ms, bytes: 2 * PIECE_BYTES + 7, ...ABOUT }
    assert.deepEqual(await store.completeFile(id, ABOUT), file)
    assert.deepEqual(await store.findFile('acme', id, now.ms), file)
    assert.equal(await store.findFile('other', id, now.ms), null)
    assert.deepEqual([...((await store.readPiece(id, 2)) ?? [])], Array(7).fill(252))
    assert.deepEqual(Buffer.from((await store.readPiece(id, 1)) ?? []), Buffer.alloc(PIECE_BYTES, 251))
    assert.equal(await store.readPiece(id, 3), null)
    assert.equal(await store.appendToFile(id, 3, pieceOf(0), now.ms), false)
    assert.equal(await store.completeFile(id, ABOUT), null)
  })

  on('counts its bytes while it is written, and until all of it has been deleted', async (store) => {
    const id = await begin(store)
    await store.appendToFile(id, 0, pieceOf(1, 1000), now.ms)
    assert.equal(await storedBytes(store), 1000)
    const { bytes } = await storeFile(store, {}, 40)
    assert.equal(await storedBytes(store), 1000 + bytes)
    const [account] = await store.listAccounts({ limit: 1, nowMs: now.ms })
    assert.equal(account?.quotaUse.storedBytes, 1000 + bytes)
    await store.deleteFile('acme', id)
    assert.equal(await storedBytes(store), 1000 + bytes)
    await purge(store)
    assert.equal(await storedBytes(store), bytes)
  })

  on('begins no more files than an account may have', async (store) => {
    const first = await begin(store, 'acme', 2)
    await storeFile(store)
    const third = { id: newJob().id, account: 'acme', createdAtMs: now.ms }
    assert.equal(await store.beginFile(third, 2), false)
    assert.equal(await store.appendToFile(third.id, 0, pieceOf(1), now.ms), false)
    await begin(store, 'other', 1)
    await store.deleteFile('acme', first)
    await purge(store)
    assert.equal(await store.beginFile(third, 2), true)
  })

  on('begins no more files than an account may have, however many begin at the same time', async (store) => {
    const about = { account: 'acme', createdAtMs: now.ms }
    const begun = await Promise.all(several(20).map(({ id }) => store.beginFile({ id, ...about }, 3)))
    assert.equal(begun.filter(Boolean).length, 3)
  })

  on(
    'a deleted file is gone, whether it was complete or not, and nobody else can delete it',
    async (store) => {
      const file = await storeFile(store, {}, 40)
      const partial = await begin(store)
      await store.appendToFile(partial, 0, pieceOf(1), now.ms)
      assert.equal(await store.deleteFile('other', file.id), false)
      assert.ok(await store.findFile('acme', file.id, now.ms))
      for (const id of [file.id, partial]) {
        assert.equal(await store.deleteFile('acme', id), true)
        assert.equal(await store.findFile('acme', id, now.ms), null)
      }
      assert.equal(await store.appendToFile(partial, 1, pieceOf(1), now.ms), false)
      assert.equal(await store.completeFile(partial, ABOUT), null)
      await purge(store)
      for (const id of [file.id, partial]) assert.equal(await store.readPiece(id, 0), null)
      assert.equal(await store.deleteFile('acme', file.id), false)
    },
  )

  on('deletes files that have expired, and uploads that were abandoned', async (store) => {
    const kept = await storeFile(store)
    const expiring = await storeFile(store, { expiresAtMs: now.ms + 3_600_000 } as object)
    const abandoned = await begin(store)
    await store.appendToFile(abandoned, 0, pieceOf(1, 10), now.ms)
    now.ms += ABANDONED_MS - 1
    const slow = await begin(store)
    await store.appendToFile(slow, 0, pieceOf(1, 10), now.ms)
    await purge(store)
    assert.ok(await store.readPiece(abandoned, 0))
    now.ms += 1
    await purge(store)
    assert.equal(await store.readPiece(abandoned, 0), null)
    assert.ok(await store.completeFile(slow, ABOUT))
    assert.ok(await store.findFile('acme', expiring.id, now.ms))
    now.ms += 3_600_000
    assert.equal(await store.findFile('acme', expiring.id, now.ms), null)
    await purge(store)
    assert.equal(await store.readPiece(expiring.id, 0), null)
    const left = await store.listFiles({ account: 'acme', newestFirst: true, limit: 9, nowMs: now.ms })
    assert.deepEqual(ids(left), [slow, kept.id])
  })

  on('does not complete a file of an account that was deleted meanwhile', async (store) => {
    const id = await begin(store, 'other')
    await store.appendToFile(id, 0, pieceOf(1, 10), now.ms)
    assert.equal(await store.deleteAccount('other', 'deleted-1'), 'deleted')
    assert.equal(await store.completeFile(id, ABOUT), null)
    now.ms += ABANDONED_MS
    await purge(store)
    assert.equal(await store.readPiece(id, 0), null)
  })

  on('lists the complete files of an account, a page at a time, in both orders', async (store) => {
    const files = []
    for (const purpose of ['batch', 'batch_output', 'batch']) files.push(await storeFile(store, { purpose }))
    await begin(store)
    await storeFile(store, {}, 1, 'other')
    const [first, second, third] = ids(files)
    const list = async (over: Partial<FileSearch>) =>
      ids(await store.listFiles({ account: 'acme', newestFirst: true, limit: 9, nowMs: now.ms, ...over }))
    assert.deepEqual(await list({}), [third, second, first])
    assert.deepEqual(await list({ newestFirst: false, limit: 2 }), [first, second])
    assert.deepEqual(await list({ purpose: 'batch' }), [third, first])
    assert.deepEqual(await list({ afterFileId: String(second) }), [first])
    assert.deepEqual(await list({ afterFileId: String(second), newestFirst: false }), [third])
  })

  on('deletes all files of an account at once, and a purge leaves the others', async (store) => {
    const [mine, others] = [await storeFile(store), await storeFile(store, {}, 1, 'other')]
    const partial = await begin(store)
    await store.deleteFilesOf('acme')
    assert.equal(await store.findFile('acme', mine.id, now.ms), null)
    assert.equal(await store.appendToFile(partial, 0, pieceOf(1), now.ms), false)
    await purge(store)
    assert.equal(await storedBytes(store), 0)
    assert.ok(await store.readPiece(others.id, 0))
  })
}
