/** Starts a Parley for a benchmark, with an empty database unless one is passed, the mock as its model, and an API key. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Target } from '../load/generator.ts'
import { Child, RUNTIME_FLAGS } from './child.ts'
import { removeScratch, scratchFolder } from './scratch.ts'

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

export interface ParleyOptions {
  readonly modelPort: number
  /** Limits jobs and upstream calls. The defaults apply if absent. */
  readonly concurrency?: number
  readonly nodeOptions?: readonly string[]
  readonly openFiles?: number
  readonly env?: Readonly<Record<string, string>>
  /** By default, Parley uses the SQLite file in its home folder. */
  readonly database?: string
  readonly maxInputTokens?: number
  readonly callbacks?: object
  readonly role?: 'all' | 'api' | 'worker'
  /** The default is this clone's `main.ts`. */
  readonly main?: string
}

/** The caller must remove the folder with `remove`. */
export class DataFolder {
  readonly folder = scratchFolder()
  readonly database = join(this.folder, 'parley.db')
  /** The key is null until the server has printed it. The server prints none if the database already has keys. */
  key: string | null = null

  remove(): void {
    removeScratch(this.folder)
  }
}

export class Parley {
  readonly child: Child
  readonly port: number
  readonly key: string
  readonly dataFolder: DataFolder
  /** The time counts from the start of the process until the server listens. */
  readonly startMs: number

  private constructor(child: Child, port: number, key: string, dataFolder: DataFolder, startMs: number) {
    this.child = child
    this.port = port
    this.key = key
    this.dataFolder = dataFolder
    this.startMs = startMs
  }

  static async start(options: ParleyOptions, dataFolder = new DataFolder()): Promise<Parley> {
    const config = join(dataFolder.folder, 'parley.config.json')
    writeFileSync(config, JSON.stringify(configuration(options)))
    const role = options.role ? ['--role', options.role] : []
    const command = ['serve', '--config', config, ...role]
    const startedMs = performance.now()
    const child = new Child({
      name: 'parley',
      command: process.execPath,
      args: [...RUNTIME_FLAGS, ...(options.nodeOptions ?? []), options.main ?? MAIN, ...command],
      cwd: dataFolder.folder,
      // The peers write no log, so Parley must write little.
      env: {
        PORT: '0',
        DATABASE_URL: options.database ?? `sqlite:${dataFolder.database}`,
        LOG_LEVEL: 'warn',
        npm_lifecycle_event: '',
        ...options.env,
      },
      ...(options.openFiles !== undefined && { openFiles: options.openFiles }),
    })
    const [, port] = await child.printed(/listening on http:\/\/127\.0\.0\.1:(\d+)/)
    const startMs = performance.now() - startedMs
    if (dataFolder.key === null) {
      const [key] = await child.printed(/prl_[A-Za-z0-9]+/)
      dataFolder.key = key
    }
    return new Parley(child, Number(port), dataFolder.key, dataFolder, startMs)
  }

  get headers(): Readonly<Record<string, string>> {
    return { 'content-type': 'application/json', 'x-api-key': this.key }
  }

  /** Single creates of this target wait for their answer. */
  single(body: string): Target {
    return {
      port: this.port,
      host: '127.0.0.1',
      path: '/api/v1/messages',
      headers: this.headers,
      body,
      expect: { status: 200, text: '"status":"completed"', correlationId: true },
    }
  }

  batch(body: string): Target {
    return {
      ...this.single(body),
      path: '/api/v1/messages/batches',
      expect: { status: 202, text: '"job_ids"', correlationId: false },
    }
  }

  /** The metric must have no labels. */
  async metric(name: string): Promise<number> {
    const text = await this.#metrics()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
  }

  async sumOf(name: string, label: string): Promise<number> {
    const samples = (await this.#metrics()).matchAll(new RegExp(`^${name}\\{(.*)\\} (\\S+)$`, 'gm'))
    return [...samples].reduce((sum, [, labels = '', value]) => {
      return labels.includes(label) ? sum + Number(value) : sum
    }, 0)
  }

  async #metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.port}/metrics`)).text()
  }
}

function configuration({ modelPort, concurrency, callbacks, maxInputTokens }: ParleyOptions): object {
  return {
    upstreams: {
      openai: {
        base_url: `http://127.0.0.1:${modelPort}/v1`,
        api_key_env: null,
        ...(concurrency !== undefined && { max_concurrency: concurrency }),
      },
    },
    ...(concurrency !== undefined && { jobs: { concurrency } }),
    ...(callbacks !== undefined && { callbacks }),
    // The benchmark measures reads, not their rate limit.
    tiers: {
      user_max: {
        reads_per_minute: 1_000_000_000,
        ...(maxInputTokens !== undefined && { max_input_tokens: maxInputTokens }),
      },
    },
  }
}
