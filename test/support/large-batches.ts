/** Lists batches with many problems, and records whether other work runs between them. */
import type { TestContext } from 'node:test'
import type { Parley } from '../parley.ts'

/**
 * Copies the newest batch three times, each with a long progress, so that the next list has all of them. Returns in how many
 * turns of the event loop the list reads them.
 */
export async function turnsOfList(
  t: TestContext,
  { store }: Parley,
  list: () => Promise<unknown>,
): Promise<number> {
  const [row] = await store.listBatches({ limit: 1 })
  let turn = 0
  const turns = new Set<number>()
  const large = {
    ...row,
    get progressJson() {
      turns.add(turn)
      return `${row?.progressJson}${' '.repeat(1e5)}`
    },
  }
  t.mock.method(store, 'listBatches', async () => [large, large, large])
  const count = () => {
    turn++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  await list()
  clearImmediate(counting)
  return turns.size
}
