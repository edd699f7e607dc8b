/**
 * API keys consist of `prl_`, 32 random base62 characters, and a checksum of 6. The checksum detects a mistyped or invented key
 * without a database lookup. Only a hash of the key is stored.
 */
import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const PREFIX = 'prl_'
const RANDOM_LENGTH = 32
const CHECKSUM_LENGTH = 6
const SHAPE = /^prl_[0-9A-Za-z]{38}$/
/** The largest multiple of 62 in a byte. Larger bytes are discarded, so that each digit is equally likely. */
const FAIR_BYTES = 248

export function makeKey(random: (bytes: number) => Uint8Array = randomBytes): string {
  let text = ''
  while (text.length < RANDOM_LENGTH) {
    for (const byte of random(RANDOM_LENGTH)) {
      if (byte < FAIR_BYTES && text.length < RANDOM_LENGTH) text += DIGITS[byte % 62]
    }
  }
  return PREFIX + text + checksum(PREFIX + text)
}

/** Whether the text could be a key, by its shape and checksum alone. */
export function isWellFormedKey(text: string): boolean {
  return SHAPE.test(text) && text.endsWith(checksum(text.slice(0, PREFIX.length + RANDOM_LENGTH)))
}

/** Returns the hash that the database stores. The key is random and long, so a plain fast hash keeps it secret. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'base64url')
}

/** The name of a key in lists and commands. It grants no access. */
export function makeKeyId(): string {
  return `key_${randomBytes(8).toString('hex')}`
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = DIGITS[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
