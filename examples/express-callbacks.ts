/**
 * Creates a batch whose jobs have callbacks, and receives the callbacks with Express.
 *
 * In a clone of Parley, allow callbacks to this machine and start the server, which prints an API key when it starts for the first time:
 *
 *     echo '{ "callbacks": { "allow_networks": ["127.0.0.0/8"] } }' > parley.config.json
 *     npm ci && npm start
 *
 * In a second terminal, in the same folder:
 *
 *     npm run -s build --workspace client
 *     export PARLEY_API_KEY=prl_…                     # the key that the server printed
 *     export PARLEY_CALLBACK_SECRET=$(npm run -s parley -- accounts secret default)
 *     npx node examples/express-callbacks.ts
 *
 * In a project of your own, copy this file and install express and parley-client (`npm pack --workspace client` creates the package). It runs
 * on Node 22.18 and newer if your package.json has "type": "module". On another machine, set PARLEY_URL, and set CALLBACK_URL to an address of this
 * program that the server can reach.
 */
import type { AddressInfo } from 'node:net'
import express from 'express'
import { type BatchJob, type Callback, Parley, WebhookVerificationError, webhooks } from 'parley-client'

const RIVERS = ['Rhine', 'Nile', 'Amur']
const secret = process.env.PARLEY_CALLBACK_SECRET ?? ''
if (secret === '') throw new Error('PARLEY_CALLBACK_SECRET is not set')

/** Each job passes this payload to its callback, so that the receiver knows which river the answer is about. */
interface Payload {
  river: string
}
type RiverCallback = Callback<string, Payload>

const received = new Set<string>()
const allReceived = Promise.withResolvers<void>()

const app = express()
// The signature covers the unmodified bytes, so do not use express.json() before this route.
app.post(
  '/callbacks',
  express.raw({ type: 'application/json', limit: '10mb' }),
  async (request, response) => {
    let callback: RiverCallback
    try {
      callback = await webhooks.verify<string, Payload>(request.body, request.headers, secret)
    } catch (error) {
      if (!(error instanceof WebhookVerificationError)) throw error // Express responds with 500, and Parley retries
      console.error('rejected:', error.message)
      response.status(401).send(error.message)
      return
    }
    // The same callback can arrive more than once. A real receiver stores the job ID together with the work.
    const isNew = !received.has(callback.job_id)
    received.add(callback.job_id)
    response.sendStatus(204) // respond first, work afterwards
    if (isNew) work(callback)
    if (received.size === RIVERS.length) allReceived.resolve()
  },
)

function work(callback: RiverCallback): void {
  const { river } = callback.callback_payload
  if (callback.status === 'completed') console.log(`${river}: ${callback.result.response_content}`)
  else console.log(`${river}: failed, ${callback.error.code}: ${callback.error.message}`)
}

// Listen before creating the batch, because the callback of a fast job arrives immediately.
const server = app.listen(Number(process.env.PORT ?? 9000), '127.0.0.1')
await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject))
const { port } = server.address() as AddressInfo
const callbackUrl = process.env.CALLBACK_URL ?? `http://127.0.0.1:${port}/callbacks`
console.log(`receiving callbacks at ${callbackUrl}`)

const parley = new Parley({ baseUrl: process.env.PARLEY_URL ?? 'http://127.0.0.1:8080' }) // and PARLEY_API_KEY
const jobs = RIVERS.map(
  (river): BatchJob => ({
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content: `Say one thing about the ${river}.` }],
    callback: { callback_url: callbackUrl, callback_payload: { river } satisfies Payload },
  }),
)
const ids = await parley.messages.createBatch(jobs)
console.log(`created ${ids.length} jobs`)
await allReceived.promise
server.close()
