/** Runs an admin action: tracks whether it is in progress, and announces its result. */
import { useState } from 'preact/hooks'
import { announce } from './parts/announce.ts'
import { apiError } from './resource.ts'

export interface Action {
  readonly busy: boolean
  readonly run: () => Promise<void>
}

/**
 * @param work returns the text to announce
 * @param onEnd called after success and after failure, because the page may show old data
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
