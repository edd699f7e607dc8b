/** Defines the sides of the callback benchmark. Each side has stored all callbacks before it starts to deliver. */
import { type CallbackDatabase, openCallbackDatabase, type StoreName } from '../harness/callback-database.ts'
import { type Child, startScript } from '../harness/child.ts'
import { assertThat } from '../harness/invariants.ts'
import type { Worked } from '../harness/load-run.ts'
import { startRedis } from '../harness/redis.ts'
import { owedCallbacks } from '../load/owed-callbacks.ts'
import type { CallbackSettings } from '../peers/callback-settings.ts'
import { fillWithOwed } from './owed-callbacks-store.ts'

export type CallbacksSideName = 'parley' | 'bare' | 'bullmq'

export interface CallbacksSideOptions extends CallbackSettings {
  readonly store: StoreName
  readonly modelPort: number
}

export interface CallbacksSide {
  begin(): Promise<Child>
  readonly servers: readonly Worked[]
  /** On Parley and Redis, a callback counts only once its delivery is recorded durably. */
  delivered(): Promise<number>
  /** Throws unless exactly this many callbacks are recorded as delivered, and all others as pending. */
  finish(delivered: number): Promise<void>
}

export function startCallbacksSide(
  name: CallbacksSideName,
  options: CallbacksSideOptions,
): Promise<CallbacksSide> {
  switch (name) {
    case 'parley':
      return startParley(options)
    case 'bare':
      return startPeer('bare-callbacks.ts', options)
    case 'bullmq':
      return startBullmq(options)
  }
}

async function startParley(options: CallbacksSideOptions): Promise<CallbacksSide> {
  const { store, callbacks, modelPort, concurrency } = options
  const there: CallbackDatabase = await openCallbackDatabase(store)
  there.dataFolder.key = await fillWithOwed(there.url, owedCallbacks(options))
  let child: Child | null = null
  return {
    begin: async () => {
      child = (await there.start({ modelPort, concurrency })).child
      return child
    },
    servers: there.servers,
    delivered: there.delivered,
    finish: async (delivered) => {
      await child?.stop()
      await there.checkJobs([], callbacks)
      const [recorded, owed] = [await there.delivered(), await there.owed()]
      assertThat(
        recorded === delivered,
        `${delivered} callbacks arrived, and ${recorded} are recorded as delivered`,
      )
      assertThat(recorded + owed === callbacks, `${callbacks - recorded - owed} callbacks were given up`)
      await there.remove()
    },
  }
}

async function startPeer(
  script: string,
  settings: CallbackSettings & { readonly redisPort?: number },
): Promise<CallbacksSide> {
  const { child } = await startScript(new URL(`../peers/${script}`, import.meta.url), {
    name: script,
    settings,
  })
  const count = async () => (await child.ask<{ count: number }>({ kind: 'delivered?' }, 'delivered')).count
  return {
    begin: async () => {
      child.tell({ kind: 'go' })
      return child
    },
    servers: [],
    delivered: count,
    finish: async (delivered) => {
      const recorded = await count()
      assertThat(recorded === delivered, `${delivered} callbacks arrived, and ${recorded} count as delivered`)
      await child.stop()
    },
  }
}

async function startBullmq(options: CallbacksSideOptions): Promise<CallbacksSide> {
  const redis = await startRedis()
  const peer = await startPeer('bullmq-callbacks.ts', { ...options, redisPort: redis.port })
  return {
    ...peer,
    servers: [redis.child],
    finish: async (delivered) => {
      await peer.finish(delivered)
      await redis.stop()
    },
  }
}
