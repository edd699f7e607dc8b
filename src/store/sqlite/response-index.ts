/**
 * In which row the cached response to a fingerprint is: an index in memory over the narrow, append-only table `kept_answers`.
 *
 * The obvious index, a B-tree by fingerprint, dirtied a random page for every job and doubled the cost of a job's whole
 * life (docs/internals/measurements.md). Here the table grows at one end and the index is built from it at the start. An entry takes 20
 * bytes; entries that have expired make room when a shard is full.
 */

const SHARDS = 64
const LEAST_SLOTS = 256

/** Open addressing with linear probing. A shard is small, so that growing it delays the event loop by little. */
interface Shard {
  slots: number
  used: number
  /** 64 bits of the fingerprint. */
  high: Uint32Array
  low: Uint32Array
  seq: Float64Array
  /** Seconds since 1970; 0 marks a slot never used. */
  untilS: Uint32Array
}

export class ResponseIndex {
  readonly #shards = Array.from({ length: SHARDS }, () => emptyShard(LEAST_SLOTS))

  /** Remembers that the outcome in row `seq` answers this fingerprint until then. The later call wins. */
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
    // Rounded up: the index may find a response for a moment too long, since the row itself decides.
    shard.untilS[slot] = Math.ceil(untilMs / 1000)
  }

  /** The row whose outcome may answer, or null. The caller compares the whole fingerprint there. */
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

/** The slot of these bits, or the free one where they would go. */
function slotOf({ slots, high: highs, low: lows, untilS }: Shard, high: number, low: number): number {
  let slot = low & (slots - 1)
  while (untilS[slot] !== 0 && (highs[slot] !== high || lows[slot] !== low)) {
    slot = (slot + 1) & (slots - 1)
  }
  return slot
}

/** Makes room: the shard keeps its live entries only, which then fill a quarter of its slots or less. */
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

/** FNV-1a over a part of the fingerprint, whose characters are evenly spread. */
function hash(text: string, from: number, to: number): number {
  let bits = 0x811c9dc5
  for (let i = from; i < to; i++) bits = Math.imul(bits ^ text.charCodeAt(i), 0x01000193)
  return bits >>> 0
}
