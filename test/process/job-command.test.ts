/** `parley job`: a job's current state, or its end, on both stores. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { reply, startModelServer } from '../model-server.ts'
import { freshDatabase } from '../postgres/database.ts'
import { startAsking } from './asking.ts'

const timeout = 60_000
const NO_JOB = '01890a5d-ac96-774b-bcce-b302099a8057'

async function asksForJobs(t: TestContext, databaseUrl?: string): Promise<void> {
  const models = await startModelServer(
    {
      script: ({ body }) => (/wait/.test(JSON.stringify(body)) ? reply.stall() : undefined),
    },
    t,
  )
  const { ask, run, begin, server, key } = await startAsking(t, {
    upstream: models.baseUrl,
    ...(databaseUrl !== undefined && { databaseUrl }),
  })
  const created = await server.caller(key).batch(['wait for me', 'Hello'])
  const [slow = '', quick = ''] = created.body.data?.job_ids ?? []

  const answer = await ask(['job', quick, '--wait'])
  assert.deepEqual([answer.code, answer.stdout, answer.stderr], [0, 'echo: Hello\n', ''])
  const whole = JSON.parse((await ask(['job', quick, '--json'])).stdout) as Record<string, unknown>
  assert.deepEqual(Object.keys(whole), ['status', 'job_id', 'created_at', 'result', 'error'])

  const open = await ask(['job', slow, '--json'])
  assert.equal(open.code, 5)
  assert.match(JSON.parse(open.stdout).status, /pending|assigned/)
  const tooLong = await ask(['job', slow, '--wait', '--timeout', '1'])
  assert.deepEqual([tooLong.code, tooLong.stdout], [5, ''])
  assert.match(tooLong.stderr, /did not finish within 1 s\. It continues/)

  const stopped = begin(['job', slow, '--wait'])
  await models.received(1)
  stopped.kill('SIGTERM')
  // The signal may come before the command has started to listen for it.
  const { code, signal } = await stopped.exited
  assert.ok(code === 143 || signal === 'SIGTERM', `${code} ${signal}`)
  await models.received(2)
  models.release()
  assert.equal((await ask(['job', slow, '--wait'])).stdout, 'echo: wait for me\n')

  const listed = async (...args: string[]) => {
    const { code, stdout } = await run(['jobs', 'list', '--json', ...args])
    assert.equal(code, 0)
    return (JSON.parse(stdout) as { job_id: string; status: string }[]).map(({ job_id, status }) => [
      job_id,
      status,
    ])
  }
  assert.deepEqual(await listed(), [
    [quick, 'completed'],
    [slow, 'completed'],
  ])
  assert.deepEqual(await listed('--limit', '1'), [[quick, 'completed']])
  assert.deepEqual(await listed('--status', 'failed'), [])
  const sent = await run(['send', '--metadata', 'customer=acme', '--no-wait', 'for acme'])
  const ofAcme = sent.stdout.trim()
  assert.equal((await ask(['job', ofAcme, '--wait'])).stdout, 'echo: for acme\n')
  assert.deepEqual(await listed('--metadata', 'customer=acme'), [[ofAcme, 'completed']])
  assert.deepEqual(await listed('--metadata', 'customer=acme', '--metadata', 'team=a'), [])
  assert.match((await run(['jobs', 'list', '--metadata', 'a=b'])).stdout, /^No job has this metadata/)
  assert.equal((await ask(['job', ofAcme, '--delete'])).code, 0)
  const table = await run(['jobs', 'list'])
  assert.match(
    table.stdout,
    new RegExp(`^JOB ID .*\\n${quick}  completed  gpt-5-mini .*\\n${slow}  completed `),
  )
  const late = await run(['job', quick, '--cancel'])
  assert.deepEqual([late.code, late.stdout], [1, ''])
  assert.match(late.stderr, /The job has already finished/)
  const again = await server.caller(key).batch(['wait again'])
  const [third = ''] = again.body.data?.job_ids ?? []
  assert.equal((await run(['job', third, '--delete'])).code, 1)
  const cancelled = await run(['job', third, '--cancel'])
  assert.deepEqual([cancelled.code, cancelled.stdout], [0, ''])
  assert.match(cancelled.stderr, /is cancelled/)
  assert.equal(JSON.parse((await run(['job', third, '--cancel', '--json'])).stdout).error.code, 'cancelled')
  assert.equal((await run(['job', third])).code, 2)
  assert.deepEqual(JSON.parse((await run(['job', third, '--delete', '--json'])).stdout), {
    job_id: third,
    deleted: true,
  })
  assert.equal((await run(['job', third, '--delete'])).code, 1)

  const none = await run(['job', NO_JOB])
  assert.deepEqual([none.code, none.stdout], [1, ''])
  assert.match(none.stderr, /does not exist or has expired/)
  const misused = await run(['job', slow, '--timeout', '5'])
  assert.deepEqual([misused.code, misused.stderr], [1, '--timeout can only be used with --wait.\n'])
  assert.match((await run(['job', slow, '--drop-callback'])).stderr, /can only be used with --delete/)
  assert.match((await run(['job', slow, '--cancel', '--wait'])).stderr, /cannot be used with option '--wait'/)
  const logged = await run(['job', slow], { env: { PARLEY_LOG: 'debug' } })
  assert.equal(logged.stdout, 'echo: wait for me\n')
  assert.match(logged.stderr, /^parley: GET \/api\/v1\/messages\/.*: 200 in \d+ ms\n$/)
}

test('a job is shown, waited for and left alone (SQLite)', { timeout }, (t) => asksForJobs(t))

test('a job is shown, waited for and left alone (Postgres)', { timeout }, async (t) =>
  asksForJobs(t, await freshDatabase(t)),
)
