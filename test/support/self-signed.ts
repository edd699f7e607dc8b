/** Generates certificates for tests, so that the repository contains no private keys, and no certificate expires. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'

export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** A value in DER is a tag, a length and the contents. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents)
  const [high, low] = [body.length >> 8, body.length & 255]
  const length = high > 0 ? [0x82, high, low] : low < 128 ? [low] : [0x81, low]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}

const sequence = (...contents: readonly Uint8Array[]) => der(0x30, ...contents)
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'))

/** The certificate has version 3, and is valid from 2000 to 2049. */
export function selfSigned(names: readonly string[], addresses: readonly string[]): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // Each certificate has its own name, because OpenSSL would otherwise take one for the issuer of another.
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
