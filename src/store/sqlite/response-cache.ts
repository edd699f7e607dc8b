/**
 * Where the answer for a fingerprint is kept: an index in memory over the narrow, append-only table `kept_answers`.
 *
 * The obvious index, a B-tree by fingerprint, dirtied a random page for every job and doubled the cost of a job's whole
 * life (docs/performance.md). Here the table grows at one end and the index is read back from it at the start. An entry
 * takes 20 bytes; entries that have ended make room when a shard is full.
 */

const SHARDS = 64
const LEAST_SLOTS = 256

export class ResponseCacheIndex {
  readonly #shards = Array.from({ length: SHARDS }, () => new Shard())

  /** Remembers that the outcome at row `seq` answers this fingerprint until then. The later call wins. */
  note(fingerprint: string, seq: number, untilMs: number, nowMs: number): void {
    const [high, low] = tagOf(fingerprint)
    // Rounded up: the index may say yes for a moment too long, since the row itself has the last word.
    this.#shard(high).set(high, low, seq, Math.ceil(untilMs / 1000), Math.floor(nowMs / 1000))
  }

  /** The row whose outcome may answer, or null. The caller compares the whole fingerprint there. */
  find(fingerprint: string, nowMs: number): number | null {
    const [high, low] = tagOf(fingerprint)
    return this.#shard(high).get(high, low, Math.floor(nowMs / 1000))
  }

  #shard(high: number): Shard {
    const shard = this.#shards[high % SHARDS]
    if (!shard) throw new Error('no such shard')
    return shard
  }
}

/** Open addressing with linear probing. A shard is small, so that making it anew holds the event loop for little. */
class Shard {
  #slots = LEAST_SLOTS
  #used = 0
  #high = new Uint32Array(LEAST_SLOTS)
  #low = new Uint32Array(LEAST_SLOTS)
  #seq = new Float64Array(LEAST_SLOTS)
  /** Seconds since 1970; 0 marks a slot never used. */
  #untilS = new Uint32Array(LEAST_SLOTS)

  get(high: number, low: number, nowS: number): number | null {
    const slot = this.#find(high, low)
    return (this.#untilS[slot] ?? 0) > nowS ? (this.#seq[slot] ?? null) : null
  }

  set(high: number, low: number, seq: number, untilS: number, nowS: number): void {
    let slot = this.#find(high, low)
    if (this.#untilS[slot] === 0) {
      if (this.#used * 2 >= this.#slots) {
        this.#renew(nowS)
        slot = this.#find(high, low)
      }
      this.#used += 1
    }
    this.#put(slot, high, low, seq, untilS)
  }

  /** The slot of this tag, or the free one where it would go. */
  #find(high: number, low: number): number {
    let slot = low & (this.#slots - 1)
    while (this.#untilS[slot] !== 0 && (this.#high[slot] !== high || this.#low[slot] !== low)) {
      slot = (slot + 1) & (this.#slots - 1)
    }
    return slot
  }

  #put(slot: number, high: number, low: number, seq: number, untilS: number): void {
    this.#high[slot] = high
    this.#low[slot] = low
    this.#seq[slot] = seq
    this.#untilS[slot] = untilS
  }

  /** Makes the shard anew with the live entries only, at a quarter of its slots or less. */
  #renew(nowS: number): void {
    const old = { high: this.#high, low: this.#low, seq: this.#seq, untilS: this.#untilS }
    const live = old.untilS.reduce((count, untilS) => (untilS > nowS ? count + 1 : count), 0)
    this.#slots = LEAST_SLOTS
    while (this.#slots < live * 4) this.#slots *= 2
    this.#used = 0
    this.#high = new Uint32Array(this.#slots)
    this.#low = new Uint32Array(this.#slots)
    this.#seq = new Float64Array(this.#slots)
    this.#untilS = new Uint32Array(this.#slots)
    old.untilS.forEach((untilS, at) => {
      if (untilS <= nowS) return
      const [high, low] = [old.high[at] ?? 0, old.low[at] ?? 0]
      this.#put(this.#find(high, low), high, low, old.seq[at] ?? 0, untilS)
      this.#used += 1
    })
  }
}

/** 64 bits of the fingerprint, which is evenly spread: two FNV-1a hashes over its halves. */
function tagOf(fingerprint: string): [high: number, low: number] {
  const half = fingerprint.length >> 1
  return [fnv(fingerprint, 0, half), fnv(fingerprint, half, fingerprint.length)]
}

function fnv(text: string, from: number, to: number): number {
  let hash = 0x811c9dc5
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}
