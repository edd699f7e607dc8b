/**
 * Tests that no trace of deleted data remains in the database file, its log, or anything else in its folder. While a reader
 * holds the log, `parley scrub` must continue later.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import test from 'node:test'
import OpenAI from 'openai'
import { reply, startModelServer } from '../model-server.ts'
import { eventually } from '../support/eventually.ts'
import { submitBatch } from '../v1/submit-batch.ts'
import { idsOf, jobOf } from './caller.ts'
import { reported } from './mistakes.ts'
import { installation } from './server-process.ts'

const MARK = 'c4n4ry'
const OTHER = 'neighb0ur'

test('nothing of a deleted account is found in the file or its log after the command has run', async (t) => {
  const models = await startModelServer(
    {
      script: ({ text }) => (text.includes('stalls') ? reply.stall() : undefined),
      keep: false,
    },
    t,
  )
  const place = await installation(t, { upstream: models.baseUrl })
  const server = await place.start()
  const myKey = await place.key(MARK)
  const [mine, theirs] = [server.caller(myKey), server.caller(await place.key(OTHER))]
  const secret = (await place.parley(['accounts', 'secret', MARK])).stdout.trim()
  // A long conversation fills database pages of its own. Short ones share pages with rows of other accounts. The deletion must
  // erase both.
  const padding = randomBytes(40_000)
    .toString('hex')
    .replaceAll(/.{100}/g, `$& ${MARK} `)
  const callback = {
    callback_url: 'https://127.0.0.1.example.invalid/',
    callback_headers: { 'x-mark': `${MARK} header` },
    callback_payload: { mark: `${MARK} payload` },
  }
  for (let round = 0; round < 10; round++) {
    const over = (content: string) => (content.includes('back') ? { callback } : {})
    const contents = Array.from({ length: 10 }, (_, index) => `${MARK} ${round} ${index} back`)
    const [short, others] = await Promise.all([
      mine.batch([...contents, padding], over),
      theirs.batch(Array.from({ length: 10 }, (_, index) => `${OTHER} ${round} ${index}`)),
    ])
    assert.deepEqual([short.status, others.status], [202, 202])
    for (const id of [...(short.body.data?.job_ids ?? []), ...(others.body.data?.job_ids ?? [])]) {
      const caller = short.body.data?.job_ids?.includes(id) ? mine : theirs
      assert.equal((await caller.ended(id)).body.data?.status, 'completed')
    }
  }
  await mine.send('/api/v1/messages/batches', [jobOf(`${MARK} keyed`)], {
    'idempotency-key': `${MARK}-key`,
  })
  await mine.batch([`${MARK} stalls`])
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: myKey })
  const { id: batchId } = await submitBatch(openai, [`${MARK} line`, `${MARK} stalls`], [], { mark: MARK })
  const answered = async () => (await openai.batches.retrieve(batchId)).request_counts?.completed
  await eventually(answered, (lines) => lines === 1)
  assert.ok((await found(place.database, MARK)).length > 0, 'the search finds nothing even before')
  const compressed = piecesOfCompressed(place.database)
  const findsCompressed = await Promise.all(compressed.map((piece) => found(place.database, piece)))
  assert.ok(findsCompressed.flat().length > 0, 'the search finds nothing compressed even before')

  const counts = await place.json(['accounts', 'delete', MARK, '--yes'])
  assert.equal(counts.deleted, true)
  assert.equal(counts.jobs, 114)
  assert.equal(counts.cancelled, 2)
  // The audit log still contains the name of the deleted account, when it was deleted and by whom. Nothing else of the account
  // may remain.
  const words = [`${MARK} `, `${MARK}-key`, `"${MARK}`, secret, `echo: ${MARK}`, ...compressed]
  for (const word of words) assert.deepEqual(await found(place.database, word), [], String(word))
  assert.equal((await mine.read('019a0000-0000-7000-8000-000000000000')).status, 401)

  const still = await theirs.batch([`${OTHER} goes on`])
  const [id = ''] = still.body.data?.job_ids ?? []
  assert.equal((await theirs.ended(id)).body.data?.status, 'completed')
  assert.ok((await found(place.database, OTHER)).length > 0)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
  for (const word of words) assert.deepEqual(await found(place.database, word), [], String(word))
})

test('while another process reads, a deletion says that the disk is not scrubbed, and how to continue', async (t) => {
  const place = await installation(t)
  const server = await place.start()
  const caller = server.caller(await server.firstKey())
  const [id = ''] = idsOf(await caller.single('CANARY-of-a-prompt'))
  const reader = new DatabaseSync(place.database)
  t.after(() => reader.close())
  reader.exec('begin')
  reader.prepare('select count(*) from jobs').get()

  const deleted = await place.parley(['jobs', 'delete', id])
  reported(deleted, /was deleted, but not scrubbed from the disk: another process reads .*parley scrub/)
  assert.equal((await caller.read(id)).status, 404)
  const held = await place.parley(['scrub'])
  reported(held, /^The database was not scrubbed: another process reads .*run `parley scrub`/)

  reader.exec('rollback')
  const scrubbed = await place.parley(['scrub'])
  assert.deepEqual(
    [scrubbed.code, scrubbed.stdout],
    [
      0,
      'The database is scrubbed: a SQLite file no longer contains deleted data; Postgres overwrites deleted rows over time.\n',
    ],
  )
  const acts = JSON.parse((await place.parley(['audit', '--json'])).stdout) as { outcome: string }[]
  assert.equal(acts[0]?.outcome, 'scrubbed')
  assert.match(acts[1]?.outcome ?? '', /^failed: another process reads/)
  assert.match(acts[2]?.outcome ?? '', /^deleted, not scrubbed: another process reads/)
})

/** The pieces of the compressed conversation are so short that most of them are within one page of the file. */
function piecesOfCompressed(database: string): Uint8Array[] {
  const db = new DatabaseSync(database, { readOnly: true })
  try {
    const row = db.prepare('select messages_zstd from requests where messages_zstd is not null').get()
    const bytes = row?.messages_zstd
    assert.ok(bytes instanceof Uint8Array, 'no conversation is stored compressed')
    return Array.from({ length: 10 }, (_, n) => bytes.subarray(500 * n, 500 * n + 24))
  } finally {
    db.close()
  }
}

async function found(database: string, word: string | Uint8Array): Promise<string[]> {
  const folder = dirname(database)
  const names: string[] = []
  for (const name of await readdir(folder)) {
    if ((await readFile(join(folder, name))).includes(word)) names.push(name)
  }
  return names
}
