/**
 * Tests a full disk for the database and for the log. A limit on the size of the process's files has the effect of a full disk,
 * needs no privileges, and can be lifted while the server runs. The long form also fills a small tmpfs.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import test, { type TestContext } from 'node:test'
import { startModelServer } from '../model-server.ts'
import { eventually } from '../support/eventually.ts'
import { LONG } from '../support/long-form.ts'
import { idsOf, type Reply } from './caller.ts'
import { jobsByContent, rows } from './rows.ts'
import { type Installation, installation, MAIN, type Server } from './server-process.ts'
import { canMount, startDisk } from './small-disk.ts'

/** The limit is 2 MiB, in blocks of 512 bytes. */
const LIMIT_BLOCKS = 4096
const CALLERS = 8
const REFUSALS = 50
const canLimit = spawnSync('sh', ['-c', `ulimit -S -f ${LIMIT_BLOCKS}`]).status === 0
const canLift = spawnSync('prlimit', ['--version']).status === 0
const skip = canLimit && canLift ? false : 'this system has no `ulimit -f` or no `prlimit`'
/** The sizes differ, so that a different write finds each disk full. Each disk is enlarged later. */
const DISKS_MIB = [3, 4, 5, 6, 8, 10, 12, 16]
const ROOM_MIB = 64
const skipDisk = !LONG ? 'only in the long form' : canMount() ? false : 'no tmpfs can be mounted here'

interface Cramped {
  readonly server: Server
  giveRoom(): void
  database(): Promise<string>
}

test(
  'a full disk gives 503 with Retry-After, no false acceptance, and recovers without a restart',
  { skip },
  (t) =>
    fillAndRecover(t, async (place) => ({
      ...(await startLimited(place)),
      database: async () => place.database,
    })),
)

for (const mib of DISKS_MIB) {
  test(`the same on a tmpfs of ${mib} MiB that is full`, { skip: skipDisk }, (t) =>
    fillAndRecover(t, async (place) => {
      const disk = await startDisk(place, mib)
      const env = { DATABASE_URL: `sqlite:${disk.folder}/parley.db` }
      const server = await place.startAs(disk.command([process.execPath, MAIN, 'serve']), { env })
      const database = async () => {
        await disk.copyTo(place.folder)
        return place.database
      }
      return { server, giveRoom: () => disk.resize(ROOM_MIB), database }
    }),
  )
}

async function startLimited(place: Installation): Promise<Omit<Cramped, 'database'>> {
  const command = `ulimit -S -f ${LIMIT_BLOCKS}; exec "${process.execPath}" "${MAIN}" serve`
  const server = await place.startAs(['sh', '-c', command])
  const giveRoom = () => {
    const lifted = spawnSync('prlimit', ['--pid', String(server.program.pid), '--fsize=unlimited:'])
    assert.equal(lifted.status, 0, String(lifted.stderr))
  }
  return { server, giveRoom }
}

async function fillAndRecover(
  t: TestContext,
  start: (place: Installation) => Promise<Cramped>,
): Promise<void> {
  const models = await startModelServer({ keep: false }, t)
  const place = await installation(t, { upstream: models.baseUrl })
  const { server, giveRoom, database } = await start(place)
  const caller = server.caller(await server.firstKey())

  const accepted: { id: string; content: string }[] = []
  const refused: string[] = []
  const padding = 'x'.repeat(20_000)
  let onFull = () => {}
  const full = new Promise<void>((resolve) => {
    onFull = resolve
  })
  // A single create whose answer cannot be stored waits until there is space. If all callers waited like this, none would
  // notice that the disk is full, so callers that only send batches continue.
  const fill = async (name: string, batchesOnly: boolean) => {
    for (let asked = 0; refused.length < REFUSALS; asked++) {
      const content = `${name}, request ${asked}: ${padding}`
      const answer = await (batchesOnly || asked % 2 === 1 ? caller.batch([content]) : caller.single(content))
      if (answer.status === 503) {
        assertUnavailable(answer)
        refused.push(content)
      } else {
        assert.ok(answer.status === 200 || answer.status === 202, answer.text)
        accepted.push({ id: idsOf(answer)[0] ?? '', content })
      }
    }
    onFull()
  }
  const filling = Promise.all(
    Array.from({ length: CALLERS }, (_, index) => fill(`caller ${index}`, index === 0)),
  )
  await Promise.race([full, filling])
  // The trial write of `/readyz` is small, so it may succeed a few more times.
  await eventually(async () => (await fetch(`${server.url}/readyz`)).status === 503, Boolean)
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200)
  const [first] = accepted
  assert.ok(first && accepted.length > 10)
  assert.equal((await caller.read(first.id)).status, 200, 'what is there can be read meanwhile')

  giveRoom()
  await filling
  assert.equal((await caller.single('room again')).status, 200)
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
  for (const { id, content } of accepted) {
    const { body } = await caller.ended(id)
    assert.equal(body.data?.result?.response_content, `echo: ${content}`)
  }
  assert.deepEqual(await server.stop(), { code: 0, signal: null })

  const stored = jobsByContent(await database())
  assert.deepEqual(
    refused.filter((content) => stored.has(content)),
    [],
    'what was refused is not there',
  )
  assert.equal(stored.size, accepted.length + 1)
  t.diagnostic(`${accepted.length} accepted, ${refused.length} refused`)
}

function filesIn(database: string) {
  return rows(
    database,
    'select (select count(*) from files) as files, (select count(*) from file_pieces) as pieces',
  )
}

function assertUnavailable({ headers, body, text }: Reply): void {
  assert.equal(body.success, false, text)
  assert.equal(typeof body.message, 'string')
  assert.ok(Number(headers['retry-after']) >= 1, `Retry-After: ${headers['retry-after']}`)
}

test('an upload that fills the disk gets 503 and leaves nothing behind', { skip }, async (t) => {
  const place = await installation(t)
  const { server, giveRoom } = await startLimited(place)
  const authorization = `Bearer ${await server.firstKey()}`
  const upload = async (bytes: number) => {
    const body = new FormData()
    body.set('purpose', 'batch')
    body.set('file', new Blob([Buffer.alloc(bytes, 'x')]), 'a')
    return fetch(`${server.url}/v1/files`, { method: 'POST', headers: { authorization }, body })
  }
  const before = filesIn(place.database)
  const answer = await upload(8_000_000)
  assert.equal(answer.status, 503, await answer.text())
  assert.deepEqual(filesIn(place.database), before)
  giveRoom()
  assert.equal((await upload(8_000_000)).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})

test('a start on a full disk explains what to fix', { skip }, async (t) => {
  const place = await installation(t)
  const program = place.spawn(['sh', '-c', `ulimit -S -f 32; exec "${process.execPath}" "${MAIN}" serve`])
  assert.deepEqual(await program.exited, { code: 1, signal: null })
  assert.match(
    program.stderr,
    /^The database .*parley\.db cannot be used: .*\. Check free disk space and the permissions/m,
  )
  assert.doesNotMatch(program.stderr, /\n {4}at /)
})

test('jobs are accepted, run and answered though no line of the log can be written', {
  skip: existsSync('/dev/full') ? false : 'this system has no /dev/full',
}, async (t) => {
  const place = await installation(t)
  const server = await place.startAs(['sh', '-c', `exec "${process.execPath}" "${MAIN}" serve 2>/dev/full`])
  const caller = server.caller(await server.firstKey())
  // The log buffers fewer lines than these before it writes.
  for (let asked = 0; asked < 400; asked++) {
    const { status, text } = await caller.single(`job ${asked}`)
    assert.equal(status, 200, text)
  }
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
  assert.deepEqual(await server.stop(), { code: 0, signal: null })
})
