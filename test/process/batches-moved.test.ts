/**
 * Tests that a batch continues in the middle of its lines after a backup and after a copy to Postgres, and that the event of
 * another batch is still sent.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import test from 'node:test'
import OpenAI from 'openai'
import { reply, startModelServer } from '../model-server.ts'
import { freshDatabase } from '../postgres/database.ts'
import { startReceiver } from '../receiver.ts'
import { eventually } from '../support/eventually.ts'
import { submitBatch } from '../v1/submit-batch.ts'
import { installation, type Server } from './server-process.ts'

test('batches are in backups and copies, with their files, and continue from there', async (t) => {
  const receiver = await startReceiver({ reply: () => ({ kind: 'answer', status: 503 }) }, t)
  const models = await startModelServer(
    {
      script: ({ body }) => (JSON.stringify(body).includes('stalls') ? reply.stall() : reply.text('Hi.')),
    },
    t,
  )
  const settings = { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0, 3600] } }
  const place = await installation(t, { upstream: models.baseUrl, settings })
  const old = await place.start()
  const key = await old.firstKey()
  await place.output(['accounts', 'webhook', 'default', `${receiver.url}/events`])
  const clientOf = ({ url }: Server) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key })
  const endOf = (server: Server, id: string) =>
    eventually(
      () => clientOf(server).batches.retrieve(id),
      ({ status }) => status === 'completed',
      { signal: t.signal },
    )
  const answers = async (server: Server, { output_file_id = '' }: OpenAI.Batch) => {
    const text = await (await clientOf(server).files.content(output_file_id)).text()
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).custom_id)
  }

  const { id: endedId } = await submitBatch(clientOf(old), ['one', 'two'])
  await endOf(old, endedId)
  // The first attempt to send the event fails. The next one is due in an hour.
  await receiver.received(1)
  const { id: openId } = await submitBatch(clientOf(old), ['three', 'stalls'])
  await models.received(4)
  const answered = async () => (await clientOf(old).batches.retrieve(openId)).request_counts?.completed
  await eventually(answered, (lines) => lines === 1)
  const backup = join(place.folder, 'backup.db')
  await place.output(['backup', backup])
  await old.crash()
  models.script = () => reply.text('Hi.')

  const goesOn = async (server: Server, env: Readonly<Record<string, string>> = {}) => {
    const ended = await endOf(server, endedId)
    assert.deepEqual((await answers(server, ended)).toSorted(), ['say one', 'say two'])
    const open = await endOf(server, openId)
    assert.deepEqual((await answers(server, open)).toSorted(), ['say stalls', 'say three'])
    assert.equal(models.requests.filter(({ body }) => JSON.stringify(body).includes('three')).length, 1)
    const jobId = endedId.slice('batch_'.length)
    const shown = await place.parley(['callbacks', 'show', jobId, '--json'], { env })
    assert.equal(shown.code, 0, shown.stderr)
    const { event, attempts } = JSON.parse(shown.stdout)
    assert.deepEqual([event, attempts], ['batch', 1])
    await server.crash()
  }

  const url = await freshDatabase(t)
  await place.output(['copy', '--from', `sqlite:${place.database}`, '--to', url])
  const env = { DATABASE_URL: url }
  await goesOn(await place.start({ env }), env)
  await place.output(['restore', backup, '--force'])
  await goesOn(await place.start())
})
