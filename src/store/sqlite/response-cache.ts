/** Finds cached responses in SQLite, with an index in memory that maps the fingerprint of a request to a row. */
import { storedTextOf } from '../compressed-text.ts'
import type { Cell, OpenFile } from './open-file.ts'
import { read } from './operation.ts'
import { textOf } from './texts.ts'

export const responseCacheOperations = {
  findResponse: read(findCached),

  /** Returns rows of `[seq, fingerprint, until_ms]`, from which the server builds the index when it starts. */
  listResponses: read((file: OpenFile, afterSeq: number, limit: number): Cell[][] =>
    file.cells(LIST, afterSeq, limit),
  ),
}

export function findCached(file: OpenFile, fingerprint: string, seq: number, nowMs: number): string | null {
  const row = file.prepare(FIND_CACHED).get(seq, fingerprint, nowMs)
  return row ? storedTextOf(row, 'content') : null
}

const FIND_CACHED = `
  select ${textOf('o', 'content')} as content from kept_answers k join outcomes o on o.seq = k.seq
  where k.seq = ? and k.fingerprint = ? and k.until_ms > ?`
const LIST = 'select seq, fingerprint, until_ms from kept_answers where seq > ? order by seq limit ?'

const SHARDS = 64
const LEAST_SLOTS = 256

/**
 * A shard is a hash table with open addressing and linear probing. It is small, so that growing it hardly delays the event
 * loop.
 */
interface Shard {
  slots: number
  used: number
  /** `high` and `low` are 32-bit hashes of the two halves of the fingerprint. */
  high: Uint32Array
  low: Uint32Array
  seq: Float64Array
  /** The time is in seconds since 1970; 0 marks a slot that was never used. */
  untilS: Uint32Array
}

/**
 * Maps fingerprints to rows of the table `kept_answers`. A server builds this index from the table when it starts. An index in
 * SQLite would change a random page for every job, which costs more (docs/internals/measurements.md).
 *
 * A slot takes 20 bytes. A shard whose slots are half full drops expired entries, and grows if necessary.
 */
export class ResponseIndex {
  readonly #shards = Array.from({ length: SHARDS }, () => emptyShard(LEAST_SLOTS))

  /**
   * The outcome in row `seq` answers this fingerprint until `untilMs`. A later call for the same fingerprint replaces the row.
   */
  set(fingerprint: string, seq: number, untilMs: number, nowMs: number): void {
    const half = fingerprint.length >> 1
    const high = hash(fingerprint, 0, half)
    const low = hash(fingerprint, half, fingerprint.length)
    const shard = this.#shards[high % SHARDS] as Shard
    let slot = slotOf(shard, high, low)
    if (shard.untilS[slot] === 0) {
      if (shard.used * 2 >= shard.slots) {
        grow(shard, Math.floor(nowMs / 1000))
        slot = slotOf(shard, high, low)
      }
      shard.used += 1
    }
    shard.high[slot] = high
    shard.low[slot] = low
    shard.seq[slot] = seq
    // The index may find a response up to a second after it has expired, but the row has the exact time.
    shard.untilS[slot] = Math.ceil(untilMs / 1000)
  }

  /**
   * Returns the row that may answer the fingerprint, or null. Different fingerprints may have the same hash, so the caller must
   * compare the whole fingerprint with the row.
   */
  find(fingerprint: string, nowMs: number): number | null {
    const half = fingerprint.length >> 1
    const high = hash(fingerprint, 0, half)
    const low = hash(fingerprint, half, fingerprint.length)
    const shard = this.#shards[high % SHARDS] as Shard
    const slot = slotOf(shard, high, low)
    return (shard.untilS[slot] ?? 0) > Math.floor(nowMs / 1000) ? (shard.seq[slot] ?? null) : null
  }
}

function emptyShard(slots: number): Shard {
  return {
    slots,
    used: 0,
    high: new Uint32Array(slots),
    low: new Uint32Array(slots),
    seq: new Float64Array(slots),
    untilS: new Uint32Array(slots),
  }
}

/** Returns the slot of this fingerprint, or the free slot for it. */
function slotOf({ slots, high: highs, low: lows, untilS }: Shard, high: number, low: number): number {
  let slot = low & (slots - 1)
  while (untilS[slot] !== 0 && (highs[slot] !== high || lows[slot] !== low)) {
    slot = (slot + 1) & (slots - 1)
  }
  return slot
}

/** Keeps only the entries that have not expired. They then fill at most a quarter of the slots. */
function grow(shard: Shard, nowS: number): void {
  const { high, low, seq, untilS } = shard
  const live = untilS.reduce((count, until) => (until > nowS ? count + 1 : count), 0)
  let slots = LEAST_SLOTS
  while (slots < live * 4) slots *= 2
  Object.assign(shard, emptyShard(slots))
  untilS.forEach((until, from) => {
    if (until <= nowS) return
    const to = slotOf(shard, high[from] ?? 0, low[from] ?? 0)
    shard.high[to] = high[from] ?? 0
    shard.low[to] = low[from] ?? 0
    shard.seq[to] = seq[from] ?? 0
    shard.untilS[to] = until
    shard.used += 1
  })
}

/** FNV-1a over half of the fingerprint suffices, because the characters of fingerprints are evenly distributed. */
function hash(text: string, from: number, to: number): number {
  let bits = 0x811c9dc5
  for (let i = from; i < to; i++) bits = Math.imul(bits ^ text.charCodeAt(i), 0x01000193)
  return bits >>> 0
}
