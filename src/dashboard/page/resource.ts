/** Something read from the admin API for a page: loading, there, or not to be had. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, admin } from './api.ts'
import { useLive } from './live.ts'

export interface Resource<T> {
  /** What was read last: kept while it is read again. */
  readonly data: T | null
  readonly error: ApiError | null
  readonly loading: boolean
  readonly reload: () => void
}

/** @param path below `/admin/api`; null reads nothing. When it changes, what was read of the old one is gone. */
export function useResource<T>(path: string | null): Resource<T> {
  const [read, setRead] = useState<{ path: string | null; data: T | null; error: ApiError | null }>({
    path,
    data: null,
    error: null,
  })
  const [loading, setLoading] = useState(path !== null)
  const [turn, setTurn] = useState(0)
  // A new turn reads the same path again.
  useEffect(() => {
    if (path === null) return
    const { signal, abort } = ending()
    setLoading(true)
    admin<T>(path, { signal }).then(
      (data) => {
        if (signal.aborted) return
        setRead({ path, data, error: null })
        setLoading(false)
      },
      (error: unknown) => {
        if (signal.aborted) return
        setRead((before) => ({
          path,
          data: before.path === path ? before.data : null,
          error: apiError(error),
        }))
        setLoading(false)
      },
    )
    return abort
  }, [path, turn])
  const reload = useCallback(() => setTurn((before) => before + 1), [])
  const isCurrent = read.path === path
  return { data: isCurrent ? read.data : null, error: isCurrent ? read.error : null, loading, reload }
}

/** Calls `reload` when points show that something happened, and no more often than every `everyMs`. */
export function useReloadOnChange(reload: () => void, active: boolean, everyMs = 4000): void {
  const { points } = useLive()
  const lastMs = useRef(Date.now())
  const depthsBefore = useRef('')
  const isDue = useRef(false)
  useEffect(() => {
    const point = points.at(-1)
    if (!point || !active) return
    const { waiting, assigned, jobs, callbacks, callbacks_owed } = point
    const depths = `${waiting} ${assigned} ${callbacks_owed}`
    const ended = [...Object.values(jobs), ...Object.values(callbacks)].some((n) => n > 0)
    isDue.current ||= ended || depths !== depthsBefore.current
    depthsBefore.current = depths
    if (!isDue.current || Date.now() - lastMs.current < everyMs) return
    isDue.current = false
    lastMs.current = Date.now()
    reload()
  }, [points, active, everyMs, reload])
}

/** What an action came to; anything but an answer of the server is a fault of the page's own. */
export function apiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error))
}

function ending(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
