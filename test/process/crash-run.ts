/**
 * A server that is killed, or stopped, again and again while callers go on asking it, on one database. The moments of the
 * kills are random numbers of events: requests sent, answers got, calls that reached the model server.
 */
import type { Caller } from './caller.ts'
import type { Random } from './random.ts'
import type { Installation, Server } from './server-process.ts'

export interface CrashRunOptions {
  readonly place: Installation
  readonly kills: number
  readonly callers: number
  /** A kill comes before so many events have been since the last start. */
  readonly mostEvents: number
  readonly random: Random
  /** One request of a caller, made as often as there is a server to ask. */
  readonly ask: (caller: Caller, name: string) => Promise<unknown>
  /** How a server is ended: by SIGKILL where absent. */
  readonly end?: (server: Server) => Promise<void>
  /** Told after the last kill, so that the requests under way can end. */
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

  /** Something happened that a kill may follow. */
  event(): void {
    this.#eventsLeft -= 1
    if (this.#eventsLeft === 0) this.#onMoment()
  }

  /** Kills as often as it was told to; resolves with a server that runs and is asked no more, and the key to it. */
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
    // A little further on, since every event is the end of something.
    for (let turns = random.below(30); turns > 0; turns--) {
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  /** Rejects when an answer was wrong; that a kill cut it off is to be expected. */
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

/** What a caller sees of a server that was killed. */
function isCutOff(error: unknown): boolean {
  return /^(ECONNRESET|ECONNREFUSED|EPIPE|UND_ERR_SOCKET)$/.test(String((error as { code?: string }).code))
}
