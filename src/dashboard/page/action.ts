/** Something that an operator has the server do: busy meanwhile, and what it came to is said. */
import { useState } from 'preact/hooks'
import { announce } from './parts/announce.ts'
import { apiError } from './resource.ts'

export interface Action {
  readonly busy: boolean
  readonly run: () => Promise<void>
}

/**
 * @param work returns what is to be said of it
 * @param onEnd called when it ended, well or not: what the page shows may be old
 */
export function useAction(work: () => Promise<string>, onEnd: (isDone: boolean) => void): Action {
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    let isDone = false
    try {
      announce(await work())
      isDone = true
    } catch (error) {
      announce(apiError(error).words, true)
    }
    setBusy(false)
    onEnd(isDone)
  }
  return { busy, run }
}
