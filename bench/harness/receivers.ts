/** Starts the receivers of callbacks for a benchmark, and asks them for their counts. */
import type { ReceiversOrder, ReceiversReport } from '../load/receivers.ts'
import { type Child, startScript } from './child.ts'

export interface Receivers {
  readonly child: Child
  readonly port: number
  expect(order: { readonly holes: number; readonly measureFromMs: number }): Promise<void>
  report(): Promise<ReceiversReport>
}

const SCRIPT = new URL('../load/receivers.ts', import.meta.url)

export async function startReceivers(delayMs: number): Promise<Receivers> {
  const { child, ready } = await startScript<{ port: number }>(SCRIPT, {
    name: 'receivers',
    settings: { delayMs },
  })
  const ask = <T extends object>(order: ReceiversOrder, answer: string) => child.ask<T>(order, answer)
  return {
    child,
    port: ready.port,
    expect: async (order) => {
      await ask({ kind: 'expect', ...order }, 'expecting')
    },
    report: () => ask({ kind: 'report?' }, 'report'),
  }
}
