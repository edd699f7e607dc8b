/**
 * Tests callbacks over TLS: the certificate must be valid for the host of the URL, although the connection goes to an address.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates, type TlsOptions } from 'node:tls'
import { FakeClock } from '../../test/fake-clock.ts'
import { startPoster } from '../../test/support/callback-poster.ts'
import { listen } from '../../test/support/listen.ts'
import { selfSigned } from '../../test/support/self-signed.ts'
import { CONNECT_MS } from './post.ts'

const known = selfSigned(['hooks.example.com'], ['127.0.0.1'])
/** This certificate is trusted, but is not valid for the hosts in these tests. */
const otherHost = selfSigned(['elsewhere.example.com'], ['127.0.0.9'])
const RESOLVED = { resolve: async () => ['127.0.0.1'] }
const defaults = getCACertificates('default')

before(() => setDefaultCACertificates([known.cert, otherHost.cert]))
after(() => setDefaultCACertificates(defaults))

test('the certificate is checked against the name, or the address, of the URL', async (t) => {
  const serverNames: string[] = []
  const SNICallback: TlsOptions['SNICallback'] = (name, answer) => {
    serverNames.push(name)
    answer(null)
  }
  const { receiver, answer } = await startPoster(t, RESOLVED, { tls: { ...known, SNICallback } })
  for (const host of ['hooks.example.com', '127.0.0.1']) {
    const url = `https://${host}:${receiver.port}/`
    await answer({ url })
    await answer({ url })
  }
  assert.equal(receiver.connections(), 2)
  assert.deepEqual(serverNames, ['hooks.example.com'], 'the handshake contains the name, but not an address')
  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers.host),
    [`hooks.example.com:${receiver.port}`, `127.0.0.1:${receiver.port}`].flatMap((host) => [host, host]),
  )
})

test('a certificate for another name or address is a failure, and nothing is sent', async (t) => {
  const { receiver, failure } = await startPoster(t, RESOLVED, { tls: otherHost })
  for (const host of ['hooks.example.com', '127.0.0.1']) {
    assert.match(await failure({ url: `https://${host}:${receiver.port}/` }), /ERR_TLS_CERT_ALTNAME_INVALID/)
  }
  await receiver.allClosed()
  assert.equal(receiver.connections(), 2)
  assert.equal(receiver.requests.length, 0)
})

test('an untrusted certificate is a failure', async (t) => {
  const { receiver, failure } = await startPoster(t, RESOLVED, { tls: selfSigned(['hooks.example.com'], []) })
  assert.match(
    await failure({ url: `https://hooks.example.com:${receiver.port}/` }),
    /^no TLS with hooks\.example\.com: .* \([A-Z_]+\)$/,
  )
  await receiver.allClosed()
  assert.equal(receiver.requests.length, 0)
})

test('a receiver without TLS is a failure', async (t) => {
  const { receiver, failure } = await startPoster(t)
  assert.match(await failure({ url: `https://127.0.0.1:${receiver.port}/` }), /^no TLS with 127\.0\.0\.1: /)
  await receiver.allClosed()
})

test('a TLS handshake that stalls ends at the connect timeout', async (t) => {
  const clock = new FakeClock()
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const mute = createServer((socket) => {
    socket.once('data', () => started.resolve())
    socket.once('close', () => ended.resolve())
    socket.on('error', () => {})
  })
  const port = await listen(t, mute)
  const { post } = await startPoster(t, { clock })
  const posted = post({ url: `https://127.0.0.1:${port}/` })
  await started.promise
  clock.advance(CONNECT_MS)
  const result = await posted
  assert.ok(result.kind === 'failed')
  assert.equal(result.message, 'no connection to 127.0.0.1 within 5 s')
  await ended.promise
})
