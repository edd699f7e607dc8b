/**
 * Kills or stops a server repeatedly while callers send it requests, on one database. Each kill comes after a random number of
 * events: requests sent, responses received, and calls that reached the model server.
 */
import { eventually } from '../support/eventually.ts'
import type { Caller } from './caller.ts'
import type { Random } from './random.ts'
import type { Installation, Server } from './server-process.ts'

export interface CrashRunOptions {
  readonly place: Installation
  readonly kills: number
  readonly callers: number
  readonly mostEvents: number
  readonly random: Random
  readonly ask: (caller: Caller, name: string) => Promise<unknown>
  /** Ends a server. The default is SIGKILL. */
  readonly end?: (server: Server) => Promise<void>
  /** After the last kill, this function must let the requests in progress end. */
  readonly onCalm: () => void
}

export class CrashRun {
  readonly #options: CrashRunOptions
  #key = ''
  #eventsLeft = 0
  #onMoment: () => void = () => {}
  #over = false

  constructor(options: CrashRunOptions) {
    this.#options = options
  }

  event(): void {
    this.#eventsLeft -= 1
    if (this.#eventsLeft === 0) this.#onMoment()
  }

  /**
   * Kills the server as often as configured. Resolves with a running server that gets no more requests, and with its API key.
   */
  async run(): Promise<{ readonly server: Server; readonly key: string }> {
    const { place, kills, callers, end = (server) => server.crash(), onCalm } = this.#options
    const first = await place.start()
    this.#key = await first.firstKey()
    let server = Promise.resolve(first)
    const names = Array.from({ length: callers }, (_, index) => `caller ${index}`)
    const asking = Promise.all(names.map((name) => this.#askOnAndOn(name, () => server)))
    try {
      for (let kill = 0; kill < kills; kill++) {
        const running = await server
        await Promise.race([this.#moment(), asking])
        server = end(running).then(() => place.start())
      }
    } finally {
      this.#over = true
      onCalm()
    }
    await asking
    return { server: await server, key: this.#key }
  }

  async #moment(): Promise<void> {
    const { random, mostEvents } = this.#options
    const events = random.below(mostEvents)
    await new Promise<void>((resolve) => {
      this.#eventsLeft = events
      this.#onMoment = resolve
      if (events === 0) resolve()
    })
    // Without these random turns, each kill would come right after an event, which is the end of something.
    for (let turns = random.below(30); turns > 0; turns--) {
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  /** Rejects if a response was wrong. Kills may interrupt responses. */
  async #askOnAndOn(name: string, server: () => Promise<Server>): Promise<void> {
    let asked = 0
    while (!this.#over) {
      const caller = (await server()).caller(this.#key)
      try {
        while (!this.#over) {
          this.event()
          await this.#options.ask(caller, `${name}, request ${asked++}`)
          this.event()
        }
      } catch (error) {
        if (!isCutOff(error)) throw error
      }
    }
  }
}

function isCutOff(error: unknown): boolean {
  return /^(ECONNRESET|ECONNREFUSED|EPIPE|UND_ERR_SOCKET)$/.test(String((error as { code?: string }).code))
}

export async function allEnded(url: string): Promise<void> {
  await eventually(
    async () => (await fetch(`${url}/metrics`)).text(),
    (text) => /^parley_queue_jobs 0$/m.test(text) && /^parley_jobs_assigned 0$/m.test(text),
  )
}
