import assert from 'node:assert/strict'
import test from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { RequestThreads } from './request-threads.ts'

/** Starts one thread with this script; resolves with what is reported as fatal. */
function fatalOf(script: string): Promise<Error> {
  return new Promise((resolve) => {
    const threads = new RequestThreads({
      threads: 1,
      script: new URL(`data:text/javascript,${encodeURIComponent(script)}`),
      dataOf: () => null,
      callsOf: () => ({ received: () => {} }),
      onTunnel: () => {},
      onCompleted: () => {},
      onStalled: () => {},
      clock: new FakeClock(),
      onFatal: resolve,
    })
    threads.started().catch(() => {})
  })
}

test('a thread that ends unasked is fatal', async () => {
  const { message } = await fatalOf('process.exit(0)')
  assert.equal(message, 'a request thread exited')
})

test('an error that nothing in a thread catches is fatal, and says what it was', async () => {
  const { message } = await fatalOf("setImmediate(() => { throw new Error('a bug in a thread') })")
  assert.equal(message, 'a bug in a thread')
})
