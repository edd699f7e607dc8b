/**
 * What nodes tell each other, by LISTEN and NOTIFY: that jobs have joined the line, and that a job was settled whose caller
 * waits at another node. NOTIFY takes a lock of the whole database at its commit, so it stays out of the transactions of
 * jobs, and what comes together goes as one. Each notice may be lost; a look at the database every second makes up for it.
 */
import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import type { NodeEvents } from '../node-store.ts'
import { connectionSettings, type Database } from './database.ts'

/** At most one sending in this time; what comes meanwhile goes with the next. */
const GATHER_MS = 10
const LOOK_MS = 1000
/** How long a notice to ourselves may take before we say that none arrive. */
const ECHO_MS = 3000
const RECONNECT_MS = 1000
/** A notice holds 8,000 bytes at most. */
const IDS_IN_NOTICE = 200

export interface NotificationsOptions {
  readonly url: string
  readonly statementMs: number
  readonly database: Database
  readonly node: string
  /** Told a turn that joined the line at another node, or a lesser one. */
  readonly onQueued: (turn: number) => void
  /** Every second, whether notices arrive or not. */
  readonly onPoll: () => void
  /** Told once when notices do not arrive, and once when they do again. */
  readonly onChange: (message: string) => void
}

export class Notifications {
  #events: NodeEvents | null = null
  readonly #options: NotificationsOptions
  #client: pg.Client | null = null
  #jobsChannel = ''
  #closed = false
  #echo: { token: string; timer: NodeJS.Timeout } | null = null
  #arrive = true
  #turn: number | null = null
  #settled = new Map<string, string[]>()
  #sending = false
  #timers = new Set<NodeJS.Timeout>()

  constructor(options: NotificationsOptions) {
    this.#options = options
  }

  subscribe(events: NodeEvents): void {
    this.#events = events
  }

  /** Resolves when it listens, or could not yet; it goes on trying. */
  async begin(): Promise<void> {
    const look = setInterval(() => {
      this.#options.onPoll()
      this.#events?.jobsWaiting()
    }, LOOK_MS)
    this.#timers.add(look.unref())
    await this.#connect()
  }

  /** A job of this turn waits. */
  jobQueued(turn: number): void {
    if (this.#client === null) return
    this.#turn = Math.min(this.#turn ?? turn, turn)
    this.#sendSoon()
  }

  /** A job was settled here whose caller waits at that node. */
  settledFor(origin: string, jobId: string): void {
    // What cannot be told now is not kept either: the look every second finds it.
    if (this.#client === null) return
    const ids = this.#settled.get(origin)
    if (ids) ids.push(jobId)
    else this.#settled.set(origin, [jobId])
    this.#sendSoon()
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    clearTimeout(this.#echo?.timer)
    const client = this.#client
    this.#client = null
    await client?.end()
  }

  async #connect(): Promise<void> {
    if (this.#closed) return
    const client = new pg.Client(connectionSettings(this.#options.url, this.#options.statementMs))
    let ended = false
    // A connection that fails may say so more than once, and must be followed by one other only.
    const onEnd = () => {
      if (!ended) this.#reconnect(client)
      ended = true
    }
    client.on('error', onEnd)
    client.on('end', onEnd)
    client.on('notification', ({ channel, payload = '' }) => this.#heard(channel, payload))
    try {
      await client.connect()
      // Nothing that notices say has to outlive a crash.
      await client.query('set synchronous_commit = off')
      const { rows } = await client.query<{ schema: string }>('select current_schema() as schema')
      this.#jobsChannel = jobsChannelOf(rows[0]?.schema ?? '')
      await client.query(`listen ${client.escapeIdentifier(this.#jobsChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(nodeChannelOf(this.#options.node))}`)
      this.#client = client
      await this.#test()
      // Whatever was told while nobody listened.
      this.#events?.jobsWaiting()
    } catch (error) {
      this.#sayWhetherTheyArrive(false, (error as Error).message)
      onEnd()
    }
    if (this.#closed) await this.#client?.end()
  }

  #reconnect(client: pg.Client): void {
    client.removeAllListeners()
    client.on('error', () => {})
    if (this.#client === client) this.#client = null
    void client.end().catch(() => {})
    if (this.#closed) return
    this.#later(RECONNECT_MS, () => void this.#connect())
  }

  #later(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      act()
    }, ms)
    this.#timers.add(timer.unref())
  }

  /** A notice to ourselves by another connection: a pooler between may take LISTEN and never pass a notice on. */
  async #test(): Promise<void> {
    const token = `echo ${randomBytes(6).toString('hex')}`
    clearTimeout(this.#echo?.timer)
    const timer = setTimeout(() => this.#sayWhetherTheyArrive(false, 'a notice to itself was lost'), ECHO_MS)
    this.#echo = { token, timer: timer.unref() }
    await this.#options.database.query(NOTIFY, [[nodeChannelOf(this.#options.node)], [token]])
  }

  #heard(channel: string, payload: string): void {
    if (payload === this.#echo?.token) {
      clearTimeout(this.#echo.timer)
      this.#echo = null
      this.#sayWhetherTheyArrive(true, '')
    } else if (channel === this.#jobsChannel) {
      this.#options.onQueued(Number(payload))
      this.#events?.jobsWaiting()
    } else {
      this.#events?.settled(payload.split(','))
    }
  }

  #sayWhetherTheyArrive(arrive: boolean, why: string): void {
    if (arrive === this.#arrive || this.#closed) return
    this.#arrive = arrive
    this.#options.onChange(
      arrive
        ? 'notices between nodes arrive again'
        : `notices between nodes do not arrive (${why}); the database is looked at every second instead`,
    )
  }

  #sendSoon(): void {
    if (this.#sending) return
    this.#sending = true
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    const [channels, payloads] = this.#gathered()
    try {
      await this.#client?.query({ ...NOTIFY, values: [channels, payloads] })
    } catch {
      // Lost: the look every second makes up for it.
    }
    this.#later(GATHER_MS, () => {
      this.#sending = false
      if (this.#turn !== null || this.#settled.size > 0) this.#sendSoon()
    })
  }

  #gathered(): [channels: string[], payloads: string[]] {
    const channels: string[] = []
    const payloads: string[] = []
    if (this.#turn !== null) {
      channels.push(this.#jobsChannel)
      payloads.push(String(this.#turn))
    }
    for (const [origin, ids] of this.#settled) {
      for (let from = 0; from < ids.length; from += IDS_IN_NOTICE) {
        channels.push(nodeChannelOf(origin))
        payloads.push(ids.slice(from, from + IDS_IN_NOTICE).join(','))
      }
    }
    this.#turn = null
    this.#settled = new Map()
    return [channels, payloads]
  }
}

/** Channels are the whole database's, and another Parley may live in another schema of it. */
function jobsChannelOf(schema: string): string {
  return `parley_jobs_${createHash('sha256').update(schema).digest('hex').slice(0, 16)}`
}

function nodeChannelOf(node: string): string {
  return `parley_node_${node}`
}

const NOTIFY = {
  name: 'notify',
  text: 'select pg_notify(n.channel, n.payload) from unnest($1::text[], $2::text[]) as n(channel, payload)',
}
