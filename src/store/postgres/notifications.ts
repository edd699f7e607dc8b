/**
 * Sends and receives notifications between nodes, with LISTEN and NOTIFY. Postgres lets only one transaction with NOTIFY commit
 * at a time, so notifications are not part of the transactions of jobs, and concurrent ones share a statement. A notification
 * may be lost, so nodes also poll the database every second.
 */
import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import type { NodeEvents } from '../node-store.ts'
import { breaksConnection, connectionSettings, type Database, meaningOf } from './database.ts'
import { RemoteWaits } from './remote-waits.ts'

/** Notifications that are raised within this time after a statement share the next statement. */
const GATHER_MS = 10
const POLL_MS = 1000
/** If the node's test notification to itself takes longer, the node reports that notifications do not arrive. */
const ECHO_MS = 3000
const RECONNECT_MS = 1000
/** A notification names at most this many jobs, because Postgres limits its size to 8,000 bytes. */
const IDS_PER_NOTIFICATION = 200
/** Notifications do not contain longer names of routes. */
const MAX_ROUTE_BYTES = 7000
/**
 * Nodes up to version 0.3 read the turn in a notification with this prefix, and ignore routes. Later nodes ignore such a
 * notification, because they get a separate one for each route. A notification without the prefix is from a node up to version
 * 0.3, or concerns a route with a long name, so it may concern any route.
 */
const WITH_ROUTE = '+'

export interface NotificationsOptions {
  readonly url: string
  readonly statementMs: number
  readonly networkMs?: number
  readonly database: Database
  readonly node: string
  /** Another node has queued jobs with this turn or higher turns. The route is null if it is not known. */
  readonly onQueued: (route: string | null, turn: number) => void
  readonly onPoll: () => void
  /** The message says that notifications have stopped arriving, or that they arrive again. */
  readonly onChange: (message: string) => void
}

export class Notifications {
  #events: NodeEvents | null = null
  readonly #options: NotificationsOptions
  #client: pg.Client | null = null
  #replaceClient = () => {}
  #jobsChannel = ''
  #routesChannel = ''
  #waitsChannel = ''
  #closed = false
  #echo: { token: string; timer: NodeJS.Timeout } | null = null
  #arriving = true
  #queued = new Map<string, number>()
  #settled = new Map<string, string[]>()
  readonly #remoteWaits = new RemoteWaits(() => performance.now())
  /** The next statement announces these jobs, and then the promise resolves. */
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

  /** The promise also resolves if the node cannot connect. The node then keeps trying. */
  async begin(): Promise<void> {
    const poll = setInterval(() => {
      this.#options.onPoll()
      this.#events?.jobsWaiting(null)
    }, POLL_MS)
    this.#timers.add(poll.unref())
    await this.#connect()
  }

  jobQueued(route: string, turn: number): void {
    if (this.#client === null) return
    this.#queued.set(route, Math.min(this.#queued.get(route) ?? turn, turn))
    this.#sendSoon()
  }

  /** The promise also resolves if the other nodes could not be asked, because polling finds finished jobs. */
  async announceWaits(jobIds: readonly string[]): Promise<void> {
    if (this.#client === null || jobIds.length === 0) return
    for (const jobId of jobIds) this.#announced.push(jobId)
    this.#sendSoon()
    await this.#announcement.promise
  }

  /** The job has finished on this node, so nodes that announced that they wait for it are notified. */
  ended(jobId: string): void {
    for (const node of this.#remoteWaits.end(jobId)) this.settledFor(node, jobId)
  }

  /** The job was settled on this node, and the other node has a pending response for it. */
  settledFor(origin: string, jobId: string): void {
    // Without a connection the notification is lost, and the other node finds the job when it polls.
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
    const { url, statementMs, networkMs } = this.#options
    const client = new pg.Client(connectionSettings(url, statementMs, networkMs))
    let ended = false
    // A failing connection may emit several events but must be replaced only once.
    const onEnd = () => {
      if (!ended) this.#reconnect(client)
      ended = true
    }
    client.on('error', onEnd)
    client.on('end', onEnd)
    client.on('notification', ({ channel, payload = '' }) => this.#receive(channel, payload))
    try {
      await client.connect()
      const { rows } = await client.query<{ schema: string }>('select current_schema() as schema')
      this.#jobsChannel = channelOf('jobs', rows[0]?.schema ?? '')
      this.#routesChannel = channelOf('routes', rows[0]?.schema ?? '')
      this.#waitsChannel = channelOf('waits', rows[0]?.schema ?? '')
      await client.query(`listen ${client.escapeIdentifier(this.#jobsChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(this.#routesChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(this.#waitsChannel)}`)
      await client.query(`listen ${client.escapeIdentifier(nodeChannelOf(this.#options.node))}`)
      this.#client = client
      this.#replaceClient = onEnd
      await this.#test()
      // Jobs may have been queued before this node listened.
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

  /**
   * The node notifies itself through another connection, because some poolers accept LISTEN but never deliver notifications.
   */
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
      // The node already knows about the jobs that it queues itself.
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
    const replaceClient = this.#replaceClient
    try {
      await this.#client?.query({ ...NOTIFY, values: [channels, payloads] })
    } catch (error) {
      // Polling replaces these notifications. If the host of the database is gone, the operating system would report the broken
      // connection only after many minutes, so the node replaces it now.
      if (breaksConnection(meaningOf(error))) replaceClient()
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

/** Channels belong to the whole database. The hash separates them from those of another Parley in another schema. */
function channelOf(what: 'jobs' | 'routes' | 'waits', schema: string): string {
  return `parley_${what}_${createHash('sha256').update(schema).digest('hex').slice(0, 16)}`
}

function nodeChannelOf(node: string): string {
  return `parley_node_${node}`
}

/**
 * Notifications need not survive a crash, so their commit does not wait for the disk. The setting is only for this transaction:
 * behind a pooler, a setting of the session would also apply to commits of jobs.
 */
const NOTIFY = {
  name: 'notify',
  text: `
  with quickly as materialized (select set_config('synchronous_commit', 'off', true))
  select pg_notify(n.channel, n.payload) from quickly, unnest($1::text[], $2::text[]) as n(channel, payload)`,
}
