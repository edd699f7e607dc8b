/**
 * Callbacks over TLS: the certificate must be valid for the host of the URL, although the connection goes to an address.
 * The certificates are generated here, so that the repository contains no private key and no certificate expires.
 */
import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates, type TlsOptions } from 'node:tls'
import { FakeClock } from '../../test/fake-clock.ts'
import { startPoster } from '../../test/support/callback-poster.ts'
import { CONNECT_MS } from './post.ts'

interface Certificate {
  readonly key: string
  readonly cert: string
}

/** DER: a tag, a length and the contents. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents)
  const length =
    body.length < 128
      ? [body.length]
      : body.length < 256
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}

const sequence = (...contents: readonly Uint8Array[]) => der(0x30, ...contents)
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'))

/** A self-signed certificate of version 3 for names and IPv4 addresses, valid from 2000 to 2049. */
function selfSigned(names: readonly string[], addresses: readonly string[]): Certificate {
  const { privateKey, publicKey }: { privateKey: KeyObject; publicKey: KeyObject } = generateKeyPairSync(
    'ec',
    {
      namedCurve: 'P-256',
    },
  )
  // Each certificate has its own name, or OpenSSL takes one for the issuer of another.
  const name = sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(randomUUID())))))
  const time = (text: string) => der(0x17, Buffer.from(text))
  const alternatives = sequence(
    ...names.map((text) => der(0x82, Buffer.from(text))),
    ...addresses.map((text) => der(0x87, Buffer.from(text.split('.').map(Number)))),
  )
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ECDSA_WITH_SHA256,
    name,
    sequence(time('000101000000Z'), time('491231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('551d11'), der(0x04, alternatives)))),
  )
  const signature = sign('sha256', content, privateKey)
  const whole = sequence(content, ECDSA_WITH_SHA256, der(0x03, Buffer.from([0]), signature))
  const lines = whole.toString('base64').replace(/.{64}/g, '$&\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  }
}

const known = selfSigned(['hooks.example.com'], ['127.0.0.1'])
/** As trusted as the first, but not valid for the hosts of these tests. */
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
  const { receiver, post } = await startPoster(t, RESOLVED, { tls: { ...known, SNICallback } })
  for (const host of ['hooks.example.com', '127.0.0.1']) {
    const url = `https://${host}:${receiver.port}/`
    assert.equal((await post({ url })).kind, 'answered', host)
    assert.equal((await post({ url })).kind, 'answered', host)
  }
  assert.equal(receiver.connections(), 2)
  assert.deepEqual(serverNames, ['hooks.example.com'], 'the handshake contains the name, but not an address')
  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers.host),
    [`hooks.example.com:${receiver.port}`, `127.0.0.1:${receiver.port}`].flatMap((host) => [host, host]),
  )
})

test('a certificate for another name or address is a failure, and nothing is sent', async (t) => {
  const { receiver, post } = await startPoster(t, RESOLVED, { tls: otherHost })
  for (const host of ['hooks.example.com', '127.0.0.1']) {
    const result = await post({ url: `https://${host}:${receiver.port}/` })
    assert.ok(result.kind === 'failed')
    assert.match(result.message, /ERR_TLS_CERT_ALTNAME_INVALID/)
  }
  await receiver.allClosed()
  assert.equal(receiver.connections(), 2)
  assert.equal(receiver.requests.length, 0)
})

test('an untrusted certificate is a failure', async (t) => {
  const { receiver, post } = await startPoster(t, RESOLVED, { tls: selfSigned(['hooks.example.com'], []) })
  const result = await post({ url: `https://hooks.example.com:${receiver.port}/` })
  assert.ok(result.kind === 'failed')
  assert.match(result.message, /^no TLS with hooks\.example\.com: .* \([A-Z_]+\)$/)
  await receiver.allClosed()
  assert.equal(receiver.requests.length, 0)
})

test('a receiver without TLS is a failure', async (t) => {
  const { receiver, post } = await startPoster(t)
  const result = await post({ url: `https://127.0.0.1:${receiver.port}/` })
  assert.ok(result.kind === 'failed')
  assert.match(result.message, /^no TLS with 127\.0\.0\.1: /)
  await receiver.allClosed()
})

test('a TLS handshake that stalls ends at the connect time-out', async (t) => {
  const clock = new FakeClock()
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const mute = createServer((socket) => {
    socket.once('data', () => started.resolve())
    socket.once('close', () => ended.resolve())
    socket.on('error', () => {})
  })
  const listening = Promise.withResolvers<void>()
  mute.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  t.after(() => mute.close())
  const address = mute.address()
  assert.ok(typeof address === 'object' && address !== null)
  const { post } = await startPoster(t, { clock })
  const posted = post({ url: `https://127.0.0.1:${address.port}/` })
  await started.promise
  clock.advance(CONNECT_MS)
  const result = await posted
  assert.ok(result.kind === 'failed')
  assert.equal(result.message, 'no connection to 127.0.0.1 within 5 s')
  await ended.promise
})
