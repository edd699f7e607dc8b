/**
 * Notifications between nodes, by LISTEN and NOTIFY: jobs were queued, a node waits for jobs, or a job was settled for which
 * another node has a pending response. NOTIFY locks the whole database at its commit, so it stays out of the transactions of jobs, and
 * notifications that arise together are sent together. Each may be lost; a poll of the database every second covers for it.
 */
import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import type { NodeEvents } from '../node-store.ts'
import { connectionSettings, type Database } from './database.ts'
import { RemoteWaits } from './remote-waits.ts'

/** At most one statement is sent in this time; notifications raised meanwhile are sent with the next one. */
const GATHER_MS = 10
const POLL_MS = 1000
/** How long a notification to this node itself may take before it reports that none arrive. */
const ECHO_MS = 3000
const RECONNECT_MS = 1000
/** A notification holds at most 8,000 bytes. */
const IDS_PER_NOTIFICATION = 200
/** A longer route is not named. */
const MAX_ROUTE_BYTES = 7000
/**
 * What precedes the turn in a notification for nodes up to version 0.3, which read a number and know no routes. Later nodes get one of
 * their own for each route, and ignore it. Without it, the notification is of such a node, and may be about any route.
 */
const WITH_ROUTE = '+'

export interface NotificationsOptions {
  readonly url: string
  readonly statementMs: number
  readonly database: Database
  readonly node: string
  /** Called with the turn of a job that another node queued, or a lesser one. The route is null if it is not known. */
  readonly onQueued: (route: string | null, turn: number) => void
  /** Called every second, whether notifications arrive or not. */
  readonly onPoll: () => void
  /** Called once when notifications stop arriving, and once when they arrive again. */
  readonly onChange: (message: string) => void
}

export class Notifications {
  #events: NodeEvents | null = null
  readonly #options: NotificationsOptions
  #client: pg.Client | null = null
  #jobsChannel = ''
  #routesChannel = ''
  #waitsChannel = ''
  #closed = false
  #echo: { token: string; timer: NodeJS.Timeout } | null = null
  #arriving = true
  /** The least turn that was queued, by route. */
  #queued = new Map<string, number>()
  #settled = new Map<string, string[]>()
  readonly #remoteWaits = new RemoteWaits(() => performance.now())
  /** Jobs to announce that this node waits for, and what resolves once they are announced. */
  #announced: string[] = []
  #announcement = Promise.withResolvers<void>()
  #sending = false
  #timers = new Set<NodeJS.Timeout>()

  constructor(options: NotificationsOptions) {
    this.#options = options
  }

  subscribe(events: NodeEvents): void {
    this.#events = events
  }

  /** Resolves when it listens, or could not connect yet; it keeps trying. */
  async begin(): Promise<void> {
    const poll = setInterval(() => {
      this.#options.onPoll()
      this.#events?.jobsWaiting(null)
    }, POLL_MS)
    this.#timers.add(poll.unref())
    await this.#connect()
  }

  /** A job with this turn is queued on the route. */
  jobQueued(route: string, turn: number): void {
    if (this.#client === null) return
    this.#queued.set(route, Math.min(this.#queued.get(route) ?? turn, turn))
    this.#sendSoon()
  }

  /**
   * Asks the other nodes to notify this one when they end these jobs. Resolves when they have been asked, or when that failed:
   * the poll covers for it.
   */
  async announceWaits(jobIds: readonly string[]): Promise<void> {
    if (this.#client === null || jobIds.length === 0) return
    for (const jobId of jobIds) this.#announced.push(jobId)
    this.#sendSoon()
    await this.#announcement.promise
  }

  /** A job ended here; other nodes may have announced that they wait for it. */
  ended(jobId: string): void {
    for (const node of this.#remoteWaits.end(jobId)) this.settledFor(node, jobId)
  }

  /** A job was settled here for which that node has a pending response. */
  settledFor(origin: string, jobId: string): void {
    // What cannot be sent now is not stored either: the other node's poll finds it.
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
    // A connection that fails may emit more than one event, and must be followed by one other only.
    const onEnd = () => {
      if (!ended) this.#reconnect(client)
      ended = true
    }
    client.on('error', onEnd)
    client.on('end', onEnd)
    client.on('notification', ({ channel, payload = '' }) => this.#receive(channel, payload))
    try {
      await client.connect()
      // Notifications need not survive a crash.
      await client.query('set synchronous_commit = off')
      const { rows } = await client.query<{ schema: string }>('select current_schema() as schema')
      this.#jobsChannel = channelOf('jobs', rows[0]?.schema ?? '')
      this.#routesChannel = channelOf('routes', rows[0]?.schema ?? '')
      this.#waitsChannel = channelOf('waits', rows[0]?.schema ?? '')
      await client.query(`listen ${client.escapeIdentifier(this.#jobsChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(this.#routesChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(this.#waitsChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(nodeChannelOf(this.#options.node))}`)
      this.#client = client
      await this.#test()
      // Notifications may have been sent before this node listened.
      this.#events?.jobsWaiting(null)
    } catch (error) {
      this.#reportArrival(false, (error as Error).message)
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

  #later(ms: number, callback: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      callback()
    }, ms)
    this.#timers.add(timer.unref())
  }

  /** Sends this node a notification on another connection: a pooler may accept LISTEN and never deliver one. */
  async #test(): Promise<void> {
    const token = `echo ${randomBytes(6).toString('hex')}`
    clearTimeout(this.#echo?.timer)
    const timer = setTimeout(() => this.#reportArrival(false, 'a notification to itself was lost'), ECHO_MS)
    this.#echo = { token, timer: timer.unref() }
    await this.#options.database.query(NOTIFY, [[nodeChannelOf(this.#options.node)], [token]])
  }

  #receive(channel: string, payload: string): void {
    if (payload === this.#echo?.token) {
      clearTimeout(this.#echo.timer)
      this.#echo = null
      this.#reportArrival(true, '')
    } else if (channel === this.#jobsChannel) {
      if (!payload.startsWith(WITH_ROUTE)) this.#jobWaits(null, Number(payload))
    } else if (channel === this.#routesChannel) {
      const [turn = '', node = ''] = payload.split(' ', 2)
      // What this node queues itself is known at once.
      if (node === this.#options.node) return
      this.#jobWaits(payload.slice(turn.length + node.length + 2), Number(turn))
    } else if (channel === this.#waitsChannel) {
      const [node = '', jobIds = ''] = payload.split(' ')
      if (node === this.#options.node) return
      for (const jobId of this.#remoteWaits.add(node, jobIds.split(','))) this.settledFor(node, jobId)
    } else {
      this.#events?.settled(payload.split(','))
    }
  }

  #jobWaits(route: string | null, turn: number): void {
    this.#options.onQueued(route, turn)
    this.#events?.jobsWaiting(route)
  }

  #reportArrival(arrive: boolean, reason: string): void {
    if (arrive === this.#arriving || this.#closed) return
    this.#arriving = arrive
    this.#options.onChange(
      arrive
        ? 'notifications between nodes arrive again'
        : `notifications between nodes do not arrive (${reason}); the database is polled every second instead`,
    )
  }

  #sendSoon(): void {
    if (this.#sending) return
    this.#sending = true
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    const announcement = this.#announcement
    this.#announcement = Promise.withResolvers()
    const [channels, payloads] = this.#takeGathered()
    try {
      await this.#client?.query({ ...NOTIFY, values: [channels, payloads] })
    } catch {
      // They are lost, and the poll every second covers for them.
    }
    announcement.resolve()
    this.#later(GATHER_MS, () => {
      this.#sending = false
      if (this.#queued.size > 0 || this.#settled.size > 0 || this.#announced.length > 0) this.#sendSoon()
    })
  }

  #takeGathered(): [channels: string[], payloads: string[]] {
    const channels: string[] = []
    const payloads: string[] = []
    if (this.#queued.size > 0) {
      channels.push(this.#jobsChannel)
      payloads.push(`${WITH_ROUTE}${Math.min(...this.#queued.values())}`)
    }
    for (const [route, turn] of this.#queued) {
      const fits = Buffer.byteLength(route) <= MAX_ROUTE_BYTES
      channels.push(fits ? this.#routesChannel : this.#jobsChannel)
      payloads.push(fits ? `${turn} ${this.#options.node} ${route}` : String(turn))
    }
    const add = (channel: string, ids: readonly string[], prefix = '') => {
      for (let from = 0; from < ids.length; from += IDS_PER_NOTIFICATION) {
        channels.push(channel)
        payloads.push(`${prefix}${ids.slice(from, from + IDS_PER_NOTIFICATION).join(',')}`)
      }
    }
    for (const [origin, ids] of this.#settled) add(nodeChannelOf(origin), ids)
    add(this.#waitsChannel, this.#announced, `${this.#options.node} `)
    this.#queued = new Map()
    this.#settled = new Map()
    this.#announced = []
    return [channels, payloads]
  }
}

/** A channel belongs to the whole database, and another Parley may use another schema of it. */
function channelOf(what: 'jobs' | 'routes' | 'waits', schema: string): string {
  return `parley_${what}_${createHash('sha256').update(schema).digest('hex').slice(0, 16)}`
}

function nodeChannelOf(node: string): string {
  return `parley_node_${node}`
}

const NOTIFY = {
  name: 'notify',
  text: 'select pg_notify(n.channel, n.payload) from unnest($1::text[], $2::text[]) as n(channel, payload)',
}
